"""Measures Perseid beside another local server that speaks the same protocol: `python -m bench`."""
