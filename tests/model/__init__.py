"""A small model of the whole database, and a state machine that holds a server against it."""
