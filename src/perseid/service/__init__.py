"""The rules of the service: what is allowed and what comes back; no HTTP, no SQL."""
