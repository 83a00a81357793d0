"""The commands of `perseid`, but for `serve`."""
