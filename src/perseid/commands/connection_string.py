"""Connection strings as SDKs take them: AccountEndpoint=…;AccountKey=…;

No message quotes a connection string or a part of it: a typing error may put the key anywhere.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import click

from perseid.commands.connection import DEFAULT_ENDPOINT, decode_secret, split

OPTION: Final = "--connection-string"
_FORM: Final = f"AccountEndpoint={DEFAULT_ENDPOINT};AccountKey=<key>;"
_ENDPOINT: Final = "AccountEndpoint"
_KEY: Final = "AccountKey"
_PORTS: Final = {"http": 80, "https": 443}


class ConnectionString(NamedTuple):
    """The address of a server and its key."""

    endpoint: str
    key: str


def parse_connection_string(text: str) -> ConnectionString:
    """Names in any case and any order; names that only SDKs need are ignored, as SDKs do."""
    values: dict[str, str] = {}
    for number, part in enumerate(text.strip().split(";"), 1):
        name, equals, value = part.partition("=")
        if not part.strip():
            continue
        if not equals:
            raise _malformed(f"its part {number} is not of the form name=value")
        name = name.strip().lower()
        if name in values:
            raise _malformed(f"its part {number} repeats a name")
        values[name] = value.strip()
    for name in (_ENDPOINT, _KEY):
        if not values.get(name.lower()):
            raise _malformed(f"it has no {name}")
    found = ConnectionString(values[_ENDPOINT.lower()], values[_KEY.lower()])
    _check(found)
    return found


def _check(found: ConnectionString) -> None:
    try:
        split(found.endpoint)
    except click.UsageError:
        raise _malformed(f"its {_ENDPOINT} is not an address with http or https") from None
    try:
        decode_secret(found.key)
    except click.UsageError:
        raise _malformed(f"its {_KEY} is not base64; copy the whole key, with its ==") from None


def _malformed(reason: str) -> click.UsageError:
    return click.UsageError(f"{OPTION} must look like {_FORM} but {reason}.")


def is_same_endpoint(one: str, other: str) -> bool:
    """True if both are the same scheme, host and port."""
    places = [
        (parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme])
        for parts in (split(one), split(other))
    ]
    return places[0] == places[1]
