"""The start file of `perseid serve --init`: what should be there when the server is ready.

`reading` turns the text into values that know where they stand, `declaring` checks their shape,
`applying` makes it so.
"""

from perseid.start_file.apply_changes import apply
from perseid.start_file.declarations import Declaration, declare
from perseid.start_file.parser import StartFileError, read

__all__ = ["Declaration", "StartFileError", "apply", "declare", "read"]
