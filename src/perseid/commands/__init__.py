"""Commands that talk to a running server: `perseid ttl` and `perseid clock`."""
