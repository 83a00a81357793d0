"""Data written by earlier releases: every later release opens it and keeps its meaning."""
