"""Rows at rest: the only package that knows a database driver."""
