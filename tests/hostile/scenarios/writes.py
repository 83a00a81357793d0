"""Writes that are refused or that evaluate something expensive first."""

from __future__ import annotations

from typing import Final

from tests.hostile.attack import MEGABYTES_2, PK, Attack, Attacker, Scenario
from tests.support.operations import patch
from tests.support.raw import RawClient

CONDITION: Final = (
    "from c where (SELECT VALUE COUNT(1) FROM x IN c.a JOIN y IN c.a JOIN z IN c.a"
    " WHERE x = y + z + 9999999) > 0"
)
SET: Final = {"op": "set", "path": "/n", "value": 1}
BULK: Final = {
    "x-ms-cosmos-is-batch-request": "True",
    "x-ms-cosmos-batch-atomic": "False",
    "x-ms-cosmos-batch-continue-on-error": "True",
}
# Small values take much more memory than their text has characters.
VALUE: Final = b"[" + b",".join([b'{"a":[1.5]}'] * ((MEGABYTES_2 - 2000) // 12)) + b"]"


def _prepare_array(raw: RawClient, container: str) -> None:
    body = {"id": "1", "pk": "a", "a": list(range(2000))}
    assert raw.post(f"{container}/docs", body, pk='["a"]').status == 201


def _conditional_patches(attack: Attack) -> None:
    bulk = [patch("1", SET, condition=CONDITION)] * 100
    single = {"operations": [SET], "condition": CONDITION}

    def work(attacker: Attacker, number: int) -> None:
        if number:
            attacker.send("PATCH", f"{attack.docs}/1", single, PK)
        else:
            attacker.send("POST", attack.docs, bulk, BULK | PK)

    attack.swarm(2, work)


def _prepare_item(raw: RawClient, container: str) -> None:
    assert raw.post(f"{container}/docs", {"id": "1", "pk": "a"}, pk='["a"]').status == 201


def _refused_writes(attack: Attack) -> None:
    """412, 409 and 404 with bodies as large as they may be."""
    change = b'{"operations":[{"op":"set","path":"/x","value":' + VALUE + b"}]}"
    item, other = (b'{"id":"%d","pk":"a","x":' % number + VALUE + b"}" for number in (1, 2))
    stale = PK | {"if-match": '"stale"'}
    requests = [
        ("PATCH", f"{attack.docs}/1", change, stale),
        ("PUT", f"{attack.docs}/1", item, stale),
        ("POST", attack.docs, item, PK),
        ("PUT", f"{attack.docs}/2", other, PK),
    ]

    def work(attacker: Attacker, number: int) -> None:
        for request in requests:
            if not attack.is_over:
                attacker.send(*request)

    attack.swarm(3, work)


WRITES: Final = (
    Scenario(
        "conditional-patches",
        "bulk and single patches whose condition joins an array with itself three times",
        _conditional_patches,
        _prepare_array,
    ),
    Scenario(
        "refused-writes",
        "bodies of 2 MB that are refused with 412, 409 and 404",
        _refused_writes,
        _prepare_item,
    ),
)
