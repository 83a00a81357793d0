"""Shared by the suites: a raw signed HTTP client and a server on a free port."""
