"""A connection that runs short statements at less cost than the driver does, and renews its plans.

The driver sets and cancels a timer for each wait; about a quarter of the processor time of a short
statement is the driver's wait. Only the usual one is done here: for the result of a statement that
was sent at once. Everything else is left to the driver, cancellations included.

The driver's cursors take about as long again to look up a prepared statement and to convert its
values. Statements that are sent most often are kept here, with values that are bytes already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGresult
from psycopg.waiting import Ready, Wait

T = TypeVar("T")

_FIRST_USES: Final = 64
_INTERVAL: Final = 0.1  # the default of the driver
_NOT_PREPARED: Final = "26000"


class KeptStatement(NamedTuple):
    """A statement that every connection prepares at its first use, and keeps."""

    sql: bytes
    types: tuple[int, ...]  # of its values, by number


class WaitingConnection(AsyncConnection[Any]):
    uses = 0
    kept_cursor: AsyncRawCursor[Any] | None = None  # a used cursor knows the types of its columns

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._kept_names: dict[bytes, bytes] = {}  # of prepared statements, by their SQL
        self._names_given = 0
        self._transformer = Transformer(self)

    async def plan_again_sometimes(self) -> None:
        """Drops the plans of prepared statements at the 64th, 128th, 256th … use.

        The database keeps a plan until it analyzes the table, about once a minute. A plan that was
        made for few items may use any index of the range, and read all of the range.
        """
        self.uses += 1
        if self.uses >= _FIRST_USES and self.uses & (self.uses - 1) == 0:
            await self.execute("DISCARD PLANS")

    async def fetch_kept(
        self, statement: KeptStatement, values: Sequence[bytes]
    ) -> list[tuple[Any, ...]]:
        """The rows of a statement; its values are in binary form. Only one task may call it."""
        result = await self.wait(self._run_kept(statement, values))
        transformer = self._transformer
        transformer.set_pgresult(result)
        rows = transformer.load_rows(0, result.ntuples, tuple)
        transformer.set_pgresult(None)  # otherwise it keeps the result in memory
        return rows

    def _run_kept(self, statement: KeptStatement, values: Sequence[bytes]) -> PQGen[PGresult]:
        sql, types = statement
        pgconn = self.pgconn
        while True:
            name = self._kept_names.get(sql)
            is_new = name is None
            if name is None:
                self._names_given += 1  # a name is never used twice
                name = b"perseid_%d" % self._names_given
                pgconn.send_prepare(name, sql, types)
                _check(*(yield from execute(pgconn)))
                self._kept_names[sql] = name
            pgconn.send_query_prepared(name, values, (Format.BINARY,) * len(types), Format.BINARY)
            results = yield from execute(pgconn)
            try:
                return _check(*results)
            except psycopg.Error as exc:
                # Something between here and the database has dropped prepared statements.
                if is_new or exc.sqlstate != _NOT_PREPARED:
                    raise
                self._kept_names.pop(sql, None)

    def _deallocate(self, name: bytes | None) -> PQGen[None]:
        """The driver drops one of its prepared statements, or all; the latter after a rollback."""
        if name is None:
            self._kept_names.clear()
        yield from super()._deallocate(name)

    async def wait(
        self,
        gen: PQGen[T],
        interval: float = _INTERVAL,
        timeout: float | None = None,  # noqa: ASYNC109 -- as the driver has it
    ) -> T:
        if timeout is not None:
            return await super().wait(gen, interval, timeout)
        socket = self.pgconn.socket  # fails if the connection is lost, before the generator begins
        cancelled: asyncio.CancelledError | None = None
        try:
            state = next(gen)
            while state == Wait.R and cancelled is None:
                try:
                    await _readable(socket)
                except asyncio.CancelledError as exc:
                    cancelled = exc
                else:
                    state = gen.send(Ready.R)
        except StopIteration as exc:
            result: T = exc.value
            return result
        if cancelled is not None and self.pgconn.status != ConnStatus.OK:
            raise cancelled  # the connection was lost, too
        return await super().wait(_Rest(gen, state, cancelled), interval)


def _check(*results: PGresult) -> PGresult:
    """The only result of a statement; raises its error."""
    result = results[-1]
    if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        raise error_from_result(result)
    return result


async def _readable(socket: int) -> None:
    """Returns when the database has sent something.

    The socket is not watched any longer then. The driver closes it if the connection was lost, and
    an event loop that still watched it would not watch the next socket with the same number.
    """
    loop = asyncio.get_running_loop()
    arrived = loop.create_future()
    try:
        loop.add_reader(socket, _set, arrived)
    except OSError as exc:
        raise psycopg.OperationalError("the socket of the connection is closed") from exc
    try:
        await arrived
    finally:
        loop.remove_reader(socket)


def _set(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)


class _Rest(Generator[Wait, Ready | int, T]):
    """What is left of a generator, for the driver to wait for.

    It begins with the cancellation, if there was one: then the driver cancels the statement, and
    begins again to read the rest.
    """

    def __init__(
        self, gen: PQGen[T], state: Wait, cancelled: asyncio.CancelledError | None
    ) -> None:
        self._gen = gen
        self._state = state
        self._cancelled = cancelled
        self._is_begun = False

    def send(self, ready: Any) -> Wait:
        if self._cancelled is not None:
            cancelled, self._cancelled = self._cancelled, None
            raise cancelled
        if not self._is_begun:
            self._is_begun = True
            return self._state
        return self._gen.send(ready)

    def throw(self, *args: Any) -> Wait:
        return self._gen.throw(*args)
