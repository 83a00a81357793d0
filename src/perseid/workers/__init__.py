"""Worker processes: run functions outside the server process, with limits of time and memory.

`pool` is the side of the server, `host` the side of the worker. Neither knows what the functions
do. The server imports this package when it needs the first worker.
"""
