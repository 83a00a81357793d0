"""The start file of `perseid serve --init`: resources that exist when the server is ready.

`parser` reads the text into values with their line and path, `declarations` checks them, and
`apply_changes` creates or updates the resources.
"""

from perseid.start_file.apply_changes import apply
from perseid.start_file.declarations import Declaration, declare
from perseid.start_file.parser import StartFileError, read

__all__ = ["Declaration", "StartFileError", "apply", "declare", "read"]
