"""Takes values from the front of a part of a request body; 400 where it ends too early."""

from __future__ import annotations

from typing import Final, NoReturn

from perseid.errors import BadRequest

_LONGEST_VARUINT: Final = 10  # bytes, seven bits of the number in each


class ByteReader:
    """The bytes of `data` from `position` to `end`. Errors name positions in `data`."""

    __slots__ = ("_data", "_end", "position")

    def __init__(self, data: bytes, position: int, end: int) -> None:
        self._data = data
        self._end = end
        self.position = position

    @property
    def left(self) -> int:
        return self._end - self.position

    def fail(self, why: str, position: int | None = None) -> NoReturn:
        at = self.position if position is None else position
        raise BadRequest(f"The body of the batch is not valid HybridRow: {why} at byte {at}.")

    def skip(self, count: int) -> int:
        """Moves on by `count` bytes and returns where they start."""
        start = self.position
        if not 0 <= count <= self._end - start:
            self.fail(f"{count} bytes are announced, but only {self._end - start} follow")
        self.position = start + count
        return start

    def take(self, count: int) -> bytes:
        start = self.skip(count)
        return self._data[start : self.position]

    def part(self, count: int) -> ByteReader:
        """A reader of the next `count` bytes only."""
        start = self.skip(count)
        return ByteReader(self._data, start, self.position)

    def byte(self) -> int:
        return self._data[self.skip(1)]

    def varuint(self) -> int:
        """A number without sign, its lowest bits first."""
        value, shift, start = 0, 0, self.position
        while (byte := self.byte()) >= 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if self.position - start == _LONGEST_VARUINT:
                self.fail(f"a number has more than {_LONGEST_VARUINT} bytes", start)
        return value | byte << shift

    def prefixed(self) -> bytes:
        """Bytes behind their number."""
        return self.take(self.varuint())

    def text(self, content: bytes, name: str) -> str:
        """UTF-8 that was just taken, decoded."""
        try:
            return content.decode()
        except UnicodeDecodeError:
            self.fail(f"'{name}' contains invalid UTF-8", self.position - len(content))
