"""Official clients against a running server."""
