"""Perseid: a document database that speaks the Cosmos DB protocol and expires items on time."""

__version__ = "0.1.0"
