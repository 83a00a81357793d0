"""The query language end to end: golden files, malformed texts, random queries, scopes."""
