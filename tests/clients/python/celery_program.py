"""Checks a server as the result backend of Celery. Needs --test-clock and plain HTTP."""

from __future__ import annotations

import sys
import traceback
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

from celery import Celery, states  # type: ignore[import-not-found]
from celery.result import AsyncResult  # type: ignore[import-not-found]

from tests.clients.python.server import ENDPOINT, KEY, advance


def connect() -> Any:
    address = urlsplit(ENDPOINT).netloc
    app = Celery("shop", backend=f"cosmosdbsql://:{quote(KEY, safe='')}@{address}")
    app.conf.cosmosdbsql_database_name = "celery"
    app.conf.cosmosdbsql_collection_name = "results"
    return app


def stored(app: Any, value: Any, state: str = states.SUCCESS) -> Any:
    """The result of a task, as a client of the queue gets it."""
    task = str(uuid.uuid4())
    app.backend.store_result(task, value, state)
    return AsyncResult(task, app=app)


def success(app: Any) -> None:
    """A result is stored and read."""
    result = stored(app, {"total": 3})
    assert result.get(timeout=60) == {"total": 3}
    assert result.state == states.SUCCESS


def failure(app: Any) -> None:
    """The error of a task is its result."""
    result = stored(app, ValueError("no such order"), states.FAILURE)
    assert result.get(timeout=60, propagate=False).args == ("no such order",)
    assert result.state == states.FAILURE


def unknown(app: Any) -> None:
    """A task without a result is pending."""
    assert AsyncResult(str(uuid.uuid4()), app=app).state == states.PENDING


def forgotten(app: Any) -> None:
    """A result is deleted."""
    result = stored(app, 1)
    result.forget()
    assert AsyncResult(result.id, app=app).state == states.PENDING


def expired(app: Any) -> None:
    """Results expire by the default of their container."""
    client, link = app.backend._client, "dbs/celery/colls/results"
    client.ReplaceCollection(link, {**client.ReadCollection(link), "defaultTtl": 3600})
    result = stored(app, 1)
    advance(3599)
    assert AsyncResult(result.id, app=app).get(timeout=60) == 1
    advance(1)
    assert AsyncResult(result.id, app=app).state == states.PENDING


def main() -> int:
    app = connect()
    failed = 0
    checks: list[Callable[[Any], None]] = [success, failure, unknown, forgotten, expired]
    for check in checks:
        try:
            check(app)
        except Exception:
            failed += 1
            print(f"FAILED  {check.__doc__}: {traceback.format_exc()[-1500:]}")
        else:
            print(f"ok      {check.__doc__}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
