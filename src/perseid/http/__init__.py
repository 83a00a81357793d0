"""The wire: headers, status codes, JSON bodies. Holds no rules."""
