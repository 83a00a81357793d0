"""Tests of the session store with the fixtures of Perseid: no server to start, no sleep.

The application creates its container, so that the tests prove the ttl that it sets. The last tests
use a container that a marker defines instead.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from session_store import RESET_SECONDS, SESSION_SECONDS, SessionStore, create_container

HOUR = 3600
marked = pytest.mark.cosmos(partition_key="/user", default_ttl=SESSION_SECONDS)


@pytest.fixture
def store(cosmos_database):
    return SessionStore(create_container(cosmos_database))


def test_a_session_expires_an_hour_after_the_last_visit(store, perseid_clock):
    session = store.sign_in("ada")
    perseid_clock.advance(HOUR - 1)
    assert store.visit("ada", session)
    perseid_clock.advance(HOUR - 1)
    assert store.visit("ada", session)
    perseid_clock.advance(HOUR)
    assert store.visit("ada", session) is None


def test_a_remembered_session_never_expires(store, perseid_clock):
    short, kept = store.sign_in("ada"), store.sign_in("ada", remember=True)
    assert store.signed_in("ada") == 2
    perseid_clock.advance(365 * 24 * HOUR)
    assert store.visit("ada", short) is None
    assert store.visit("ada", kept)
    assert store.signed_in("ada") == 1


def test_a_cart_expires_with_its_session(store, perseid_clock):
    session = store.sign_in("ada")
    assert store.put_in_cart("ada", session, "telescope")
    assert store.visit("ada", session)["cart"] == ["telescope"]
    perseid_clock.advance(HOUR)
    assert not store.put_in_cart("ada", session, "tripod")


def test_visits_at_the_same_time_lose_nothing(store):
    session = store.sign_in("ada")
    with ThreadPoolExecutor(8) as pool:
        carts = pool.map(lambda n: store.put_in_cart("ada", session, f"a{n}"), range(20))
        visits = pool.map(lambda _: store.visit("ada", session), range(20))
        assert all([*carts, *visits])
    last = store.visit("ada", session)
    assert last["visits"] == 21
    assert sorted(last["cart"]) == sorted(f"a{n}" for n in range(20))


def test_a_reset_code_expires_after_five_minutes(store, perseid_clock):
    code = store.request_reset("ada")
    assert not store.is_reset_code("ada", f"not {code}")
    perseid_clock.advance(RESET_SECONDS - 1)
    assert store.is_reset_code("ada", code)
    perseid_clock.advance(1)
    assert not store.is_reset_code("ada", code)


def test_a_second_code_replaces_the_first(store, perseid_clock):
    first = store.request_reset("ada")
    perseid_clock.advance(RESET_SECONDS - 1)
    second = store.request_reset("ada")
    perseid_clock.advance(RESET_SECONDS - 1)
    assert store.is_reset_code("ada", second)
    assert first == second or not store.is_reset_code("ada", first)


def test_signing_out_deletes_one_session(store):
    session, other = store.sign_in("ada"), store.sign_in("ada")
    store.sign_out("ada", session)
    store.sign_out("ada", session)
    assert store.visit("ada", session) is None
    assert store.visit("ada", other)


def test_users_do_not_see_each_other(store):
    session = store.sign_in("ada")
    assert store.visit("bob", session) is None
    assert store.signed_in("bob") == 0


@marked
@pytest.mark.cosmos(items=[{"id": "old", "user": "ada", "kind": "session", "cart": []}])
def test_old_sessions_have_expired(cosmos_container, perseid_clock):
    store = SessionStore(cosmos_container)
    assert store.signed_in("ada") == 1
    perseid_clock.advance(24 * HOUR)
    assert store.signed_in("ada") == 0


@marked
def test_asynchronous_code_reads_the_same_container(
    cosmos_container, async_cosmos_container, perseid_clock
):
    store = SessionStore(cosmos_container)
    session = store.sign_in("ada")

    async def carts():
        async with async_cosmos_container as container:
            first = await container.read_item(session, partition_key="ada")
            perseid_clock.advance(HOUR)
            remaining = [item async for item in container.query_items("SELECT * FROM c")]
            return first["cart"], remaining

    assert asyncio.run(carts()) == ([], [])
