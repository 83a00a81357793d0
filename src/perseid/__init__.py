"""Perseid: a document database that speaks the Cosmos DB wire protocol and expires items on time."""

__version__ = "0.1.0"
