"""The connections of this process, as the operating system sees them.

The listener accepts connections, but it neither tells whether a client has read a response nor
closes a connection on request. Linux knows the first and can do the second. On other systems
`open_connections` returns None, and only the deadlines of the listener apply.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

_DESCRIPTORS: Final = "/proc/self/fd"
_IS_SUPPORTED: Final = sys.platform == "linux"
# struct tcp_info of Linux: positions of its fields, and the size up to the last one.
_INFO_BYTES: Final = 148
_MS_SINCE_RECEIVED: Final = 52
_BYTES_ACKNOWLEDGED: Final = 120
_BYTES_NOT_SENT: Final = 144


# The address of a client and the scheme it uses. The address alone is not enough: a system may use
# one port of its own for two connections to different ports.
ConnectionKey: TypeAlias = tuple[str, str]


class ClientConnection(NamedTuple):
    """A connection that a client has opened to this server."""

    descriptor: int
    has_unread: bool  # the client does not take what is ready to be sent to it
    acknowledged: int  # bytes that the client has taken
    silent_seconds: float  # since the client last sent something


def count_descriptors() -> int:
    """How many files and sockets the process has open; 0 if that is unknown."""
    return len(os.listdir(_DESCRIPTORS)) if _IS_SUPPORTED else 0


def open_connections(
    schemes: Mapping[int, str],
) -> dict[ConnectionKey, ClientConnection] | None:
    """The connections to the ports, whose schemes are given, with addresses as listeners write."""
    if not _IS_SUPPORTED:
        return None
    found = {}
    for name in os.listdir(_DESCRIPTORS):
        entry = _inspect(int(name), schemes)
        if entry is not None:
            found[entry[0]] = entry[1]
    return found


def close(connection: ClientConnection, key: ConnectionKey, schemes: Mapping[int, str]) -> None:
    """Ends a connection; the listener then frees what it holds. Does nothing if it has ended."""
    entry = _inspect(connection.descriptor, schemes)
    if entry is None or entry[0] != key:  # the descriptor means something else by now
        return
    borrowed = socket.socket(fileno=connection.descriptor)
    try:
        with suppress(OSError):
            borrowed.shutdown(socket.SHUT_RDWR)
    finally:
        borrowed.detach()


def _inspect(
    descriptor: int, schemes: Mapping[int, str]
) -> tuple[ConnectionKey, ClientConnection] | None:
    """Key and state of a connection; None if the descriptor is anything else.

    The descriptor stays the listener's: it is not duplicated either, because closing a duplicate
    of a database file would drop the locks on that file.
    """
    try:
        borrowed = socket.socket(fileno=descriptor)
    except OSError:
        return None
    try:
        if borrowed.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        scheme = schemes.get(borrowed.getsockname()[1])
        if scheme is None:
            return None
        host, client_port = borrowed.getpeername()[:2]
        info = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    except OSError:
        return None
    finally:
        borrowed.detach()
    if len(info) < _INFO_BYTES:  # an old kernel
        return None
    client = f"[{host}]:{client_port}" if ":" in host else f"{host}:{client_port}"
    return (client, scheme), ClientConnection(
        descriptor,
        _number(info, _BYTES_NOT_SENT) > 0,
        _number(info, _BYTES_ACKNOWLEDGED, "=Q"),
        _number(info, _MS_SINCE_RECEIVED) / 1000,
    )


def _number(info: bytes, position: int, form: str = "=I") -> int:
    (value,) = struct.unpack_from(form, info, position)
    return int(value)
