"""One request's view of one container: admitted once, the same until its answer."""

from __future__ import annotations

from typing import NamedTuple

from perseid.model import Container
from perseid.service.account import Account
from perseid.store.protocol import Store
from perseid.ttl import Horizon


class Operation(NamedTuple):
    """The container as it stood at admission, one `now`, and what is dead at that moment."""

    account: Account
    container: Container
    now: float
    horizon: Horizon

    @property
    def store(self) -> Store:
        return self.account.store

    @property
    def ts(self) -> int:
        """The whole second that items written by this request carry."""
        return int(self.now)


def begin(account: Account, container: Container, now: float) -> Operation:
    return Operation(account, container, now, account.horizon(container, now))
