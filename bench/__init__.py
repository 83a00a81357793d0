"""Compares Perseid with another local server of the same protocol: `python -m bench`."""
