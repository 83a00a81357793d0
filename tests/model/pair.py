"""Two servers on one database, whose clients never know which of them they will meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from random import Random
from typing import Any

from perseid.config import Settings
from tests.model.site import Site
from tests.support.raw import RawClient, Reply
from tests.support.running import running


class EitherClient(RawClient):
    """Each request goes to one of several servers, by chance."""

    def __init__(self, clients: Sequence[RawClient], random: Random) -> None:
        super().__init__(clients[0].endpoint, clients[0].key)
        self.clients = clients
        self._random = random

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Reply:
        return self._random.choice(self.clients).request(method, path, body, headers, **options)


class SharedClock:
    """The clock of all servers, moved through any of them; it stands still in between."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._now = self._ask("freeze")
        self.advance(-self._now % 1)

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> float:
        self._now = self._ask("advance", seconds=seconds)
        self._check()
        return self._now

    def set(self, instant: float) -> float:
        self._now = self._ask("set", to=instant)
        self._check()
        return self._now

    def _ask(self, move: str, **body: float) -> float:
        reply = self._pair.raw.post(f"/_perseid/clock/{move}", body)
        assert reply.status == 200, reply
        now: float = reply.json["now"]
        return now

    def _check(self) -> None:
        """Both server processes show the same time from now on."""
        for client in self._pair.clients:
            assert client.get("/_perseid/clock").json["now"] == self._now


class Pair(Site):
    """A site with two front ends; either may go away and come back while the other goes on."""

    raw: EitherClient

    def __init__(self, settings: Settings, seed: int = 0) -> None:
        super().__init__(replace(settings, test_clock=True))
        self._random = Random(seed)
        self._started: list[ExitStack] = []
        self.clients: list[RawClient] = []

    def restart(self) -> None:
        number = self._random.randrange(len(self._started))
        self._started[number].close()
        self._started[number] = ExitStack()
        self.clients[number] = self._front_end(self._started[number])

    def _start(self) -> None:
        self._running.callback(self._stop)
        self._started = [ExitStack() for _ in range(2)]
        self.clients[:] = [self._front_end(stack) for stack in self._started]
        self.raw = EitherClient(self.clients, self._random)
        self.clock = SharedClock(self)

    def _stop(self) -> None:
        for stack in self._started:
            stack.close()

    def _front_end(self, stack: ExitStack) -> RawClient:
        found = stack.enter_context(running(self._settings))
        return stack.enter_context(closing(RawClient(found.endpoint)))
