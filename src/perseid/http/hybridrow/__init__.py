"""HybridRow: the binary format in which the .NET client sends batches, and reads their results.

`record_io` is the stream around the rows, `rows` the rows themselves, `batch_rows` the columns of
operations and results. All of it is pure. Every length is compared with the bytes that are left
before it is used, and nothing in the input makes the reader call itself.
"""
