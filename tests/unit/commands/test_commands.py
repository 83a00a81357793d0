"""`perseid ttl` and `perseid clock` against a running server: what they print, how they fail."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import click
import pytest
from click.testing import CliRunner

from perseid.clock import MovableClock
from perseid.commands.admin_client import AdminClient
from perseid.commands.cli import main
from perseid.commands.connection import Connection, Refused, ssl_context_for
from perseid.commands.resource_client import database_names
from perseid.commands.time_text import (
    duration_text,
    instant_text,
    parse_default_ttl,
    parse_duration,
    parse_instant,
)
from perseid.config import Settings
from tests.support.builders import create_container
from tests.support.cli import Cli, invoke, printed_without_warnings
from tests.support.raw import RawClient
from tests.support.running import free_port, running
from tests.support.servers import RunningServer, Servers
from tests.unit.commands.conftest import START

OTHER_KEY = "b3RoZXIga2V5"
ANSWERED = b"HTTP/1.1 200 OK\r\nx-ms-activity-id: a\r\ncontent-length: 2\r\n\r\n{}"
CLOCK = json.dumps({"now": START, "movable": False, "heldUntil": None}).encode()


@pytest.fixture(scope="module")
def server(frozen_server: RunningServer) -> RunningServer:
    return frozen_server


@pytest.fixture
def container_names(raw: RawClient, clock: MovableClock, database: str) -> tuple[str, str]:
    """A container under defaultTtl 100: two items inherit, one has ttl 5, one never expires.

    The first was written ten seconds before now, the others now.
    """
    create_container(raw, database, defaultTtl=100)
    items: list[tuple[str, dict[str, int]]] = [
        ("old", {}), ("young", {}), ("brief", {"ttl": 5}), ("forever", {"ttl": -1}),
    ]  # fmt: skip
    for id_, lifetime in items:
        reply = raw.post(f"{database}/colls/c/docs", {"id": id_, "pk": "p", **lifetime}, pk='["p"]')
        assert reply.status == 201
        if id_ == "old":
            clock.advance(10)
    return database.removeprefix("/dbs/"), "c"


def set_default_ttl(raw: RawClient, place: tuple[str, str], default_ttl: int | None) -> None:
    path = "/dbs/{}/colls/{}".format(*place)
    body = raw.get(path).json
    assert raw.put(path, body | {"defaultTtl": default_ttl}).status == 200


def lines(text: str) -> list[str]:
    """Each printed line with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


# ttl


def test_status(cli: Cli, container_names: tuple[str, str], clock: MovableClock) -> None:
    now = int(clock.now())
    found = lines(printed_without_warnings(cli("ttl", "status", *container_names)))
    assert found[0] == f"{container_names[0]}/c at {instant_text(now)}"
    for line in (
        "default ttl 100 s (1m 40s)",
        "pending purge 0 items, 0 bytes",
        f"next expiry {instant_text(now + 5)}",
        "purge hold 0s",
        "guard none",
        "policy changes 0",
    ):
        assert line in found
    assert any(line.startswith("live 4 items, ") for line in found)
    assert any(line.startswith("expiring 3 items, ") for line in found)
    assert any(line.startswith("non-expiring 1 item, ") for line in found)
    assert "purged in total 0 items, 0 bytes" in found


def test_status_shows_what_was_purged(
    cli: Cli, container_names: tuple[str, str], clock: MovableClock
) -> None:
    clock.advance(5)
    before = lines(printed_without_warnings(cli("ttl", "status", *container_names)))
    (pending,) = (line.removeprefix("pending purge ") for line in before if "pending" in line)
    assert pending.startswith("1 item, ")
    assert not pending.endswith(" 0 bytes")
    printed_without_warnings(cli("ttl", "drain", *container_names))
    after = lines(printed_without_warnings(cli("ttl", "status", *container_names)))
    assert "pending purge 0 items, 0 bytes" in after
    assert f"purged in total {pending}" in after


@pytest.mark.parametrize(
    ("given", "policy", "expires", "gains", "loses"),
    [
        ("8", "100 s (1m 40s) -> 8 s (8s)", 1, 0, 0),
        ("2h", "100 s (1m 40s) -> 7200 s (2h)", 0, 0, 0),
        ("none", "100 s (1m 40s) -> on, no default", 0, 0, 2),
        ("-1", "100 s (1m 40s) -> on, no default", 0, 0, 2),
        ("off", "100 s (1m 40s) -> off", 0, 0, 3),
    ],
)
def test_preview(
    cli: Cli,
    container_names: tuple[str, str],
    given: str,
    policy: str,
    expires: int,
    gains: int,
    loses: int,
) -> None:
    found = lines(
        printed_without_warnings(cli("ttl", "preview", *container_names, "--default-ttl", given))
    )
    assert f"default ttl {policy}" in found
    assert any(line.startswith(f"would expire immediately {expires} item") for line in found)
    assert f"would gain an expiry {gains}" in found
    assert f"would lose their expiry {loses}" in found
    assert any(line.startswith("examples old") for line in found) == bool(expires)
    assert not any("confirm" in line for line in found)  # there is no guard


@pytest.mark.parametrize(
    ("given", "default_ttl", "text"),
    [
        ("2h", 7200, "7200 s (2h)"),
        ("none", -1, "on, no default"),
        ("-1", -1, "on, no default"),
        ("off", None, "off"),
    ],
)
def test_set(
    cli: Cli,
    raw: RawClient,
    container_names: tuple[str, str],
    given: str,
    default_ttl: int | None,
    text: str,
) -> None:
    before = raw.get("/dbs/{}/colls/{}".format(*container_names)).json
    found = lines(printed_without_warnings(cli("ttl", "set", *container_names, given)))
    assert found == [
        "/".join(container_names),
        f"default ttl 100 s (1m 40s) -> {text}",
        "expired immediately 0 items, 0 bytes",
    ]
    after = raw.get("/dbs/{}/colls/{}".format(*container_names)).json
    assert after.get("defaultTtl") == default_ttl
    kept = before.keys() - {"defaultTtl", "_etag", "_ts"}
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    definition = json.loads(
        printed_without_warnings(cli("ttl", "set", *container_names, "5", "--json"))
    )
    assert definition["defaultTtl"] == 5


def test_set_with_a_guard(cli: Cli, raw: RawClient, container_names: tuple[str, str]) -> None:
    guarded = raw.put("/_perseid/ttl/{}/{}".format(*container_names), {"guard": "0"})
    assert guarded.status == 200
    result = cli("ttl", "set", *container_names, "8")
    assert result.exit_code == 1
    assert "would expire 1 items immediately; the guard allows 0." in result.stderr
    assert "give --confirm with the token of ttl preview" in result.stderr
    preview = printed_without_warnings(
        cli("ttl", "preview", *container_names, "--default-ttl", "8")
    )
    *_, allowed, option, header = lines(preview)
    assert allowed.startswith("The expiry guard allows 0. To confirm")
    token = header.removeprefix("or send the header: x-perseid-confirm: ")
    assert option == f"`perseid ttl set`: --confirm {token}"
    # A refused change does not leave the hold behind.
    assert cli("ttl", "set", *container_names, "8", "--hold", "1h").exit_code == 1
    status = raw.get("/_perseid/ttl/{}/{}".format(*container_names)).json
    assert status["purgeHoldSeconds"] == 0
    changed = cli("ttl", "set", *container_names, "8", "--confirm", token)
    assert any(
        line.startswith("expired immediately 1 item, ")
        for line in lines(printed_without_warnings(changed))
    )


def test_set_with_a_hold_can_be_undone_after_a_purge(
    cli: Cli, raw: RawClient, container_names: tuple[str, str]
) -> None:
    changed = cli("ttl", "set", *container_names, "8", "--hold", "1h")
    assert "purge hold 1h" in lines(printed_without_warnings(changed))
    assert lines(printed_without_warnings(cli("ttl", "drain", *container_names)))[0] == "0 purged"
    found = lines(printed_without_warnings(cli("ttl", "undo", *container_names)))
    assert any(line.startswith("restored 1 item, ") for line in found)
    assert "gone" not in found[-1]


def test_a_wrong_value_leaves_the_hold_alone(
    cli: Cli, raw: RawClient, container_names: tuple[str, str]
) -> None:
    result = cli("ttl", "set", *container_names, "0", "--hold", "1h")
    assert result.exit_code == 1
    assert "The input defaultTtl '0'" in result.stderr
    status = raw.get("/_perseid/ttl/{}/{}".format(*container_names)).json
    assert (status["purgeHoldSeconds"], status["defaultTtl"]) == (0, 100)


def test_undo_says_that_purged_items_are_gone(cli: Cli, container_names: tuple[str, str]) -> None:
    printed_without_warnings(cli("ttl", "set", *container_names, "8"))
    printed_without_warnings(cli("ttl", "drain", *container_names))
    result = cli("ttl", "undo", *container_names)
    found = lines(printed_without_warnings(result))
    assert "default ttl 100 s (1m 40s)" in found
    assert found[-1] == "The policy is restored. Purged already and gone: 1 item."


def test_preview_draws_when_live_items_would_expire(
    cli: Cli, container_names: tuple[str, str]
) -> None:
    """`brief` expires in 5 seconds, `young` in 50, `old` in 40: one bar each, all full length."""
    text = printed_without_warnings(cli("ttl", "preview", *container_names, "--default-ttl", "50"))
    bars = [line for line in text.splitlines() if "━" in line]
    assert len(bars) == 3
    assert {bar.count("━") for bar in bars} == {24}


def test_forecast_draws_bars_to_scale(
    cli: Cli, container_names: tuple[str, str], clock: MovableClock
) -> None:
    """In minutes: `brief` in the first; `old` and `young` in the second."""
    now = int(clock.now())
    text = printed_without_warnings(
        cli("ttl", "forecast", *container_names, "--bucket", "minute", "--count", "3")
    )
    found = lines(text)
    assert any(line.startswith(f"{instant_text(now)} 1 ") for line in found)
    assert any(line.startswith(f"{instant_text(now + 60)} 2 ") for line in found)
    assert f"{instant_text(now + 120)} 0 0 bytes" in found
    assert [line.count("━") for line in text.splitlines() if "━" in line] == [12, 24]
    assert "expire later 0 items, 0 bytes" in found
    assert any(line.startswith("non-expiring 1 item, ") for line in found)
    assert "pending purge 0 items, 0 bytes" in found
    assert "time to purge those about 0s" in found


def test_figures_have_precedence_over_bars(endpoint: str, container_names: tuple[str, str]) -> None:
    environment = {"PERSEID_ENDPOINT": endpoint, "COLUMNS": "40"}
    command = ["ttl", "forecast", *container_names, "--bucket", "minute", "--count", "2"]
    found = lines(printed_without_warnings(CliRunner().invoke(main, command, env=environment)))
    figures = [line for line in found if re.search(r"Z \d+ \d+ bytes$", line)]
    assert len(figures) == 2, found


def test_a_screen_that_says_it_has_no_width(
    endpoint: str, container_names: tuple[str, str]
) -> None:
    environment = {"PERSEID_ENDPOINT": endpoint, "COLUMNS": "0"}
    found = printed_without_warnings(
        CliRunner().invoke(main, ["ttl", "status", *container_names], env=environment)
    )
    assert "pending purge" in found


def test_explain_a_live_item(
    cli: Cli, container_names: tuple[str, str], clock: MovableClock
) -> None:
    now = int(clock.now())
    found = lines(
        printed_without_warnings(
            cli("ttl", "explain", *container_names, "brief", "--partition-key", '"p"')
        )
    )
    assert found[0] == f"brief at {instant_text(now)}"
    for line in (
        'partition key ["p"]',
        f"last written {instant_text(now)}",
        "item ttl 5",
        "state live under the current policy and every earlier one",
        "TTL source item",
        f"expires at {instant_text(now + 5)}",
        "remaining 5s",
    ):
        assert line in found


def test_explain_an_expired_item(
    cli: Cli, container_names: tuple[str, str], clock: MovableClock
) -> None:
    clock.advance(5)
    found = lines(
        printed_without_warnings(
            cli("ttl", "explain", *container_names, "brief", "--partition-key", '["p"]')
        )
    )
    assert "state expired: its own ttl has passed" in found
    assert "purged before it 0" in found


@pytest.mark.parametrize(
    ("id_", "default_ttl", "source"),
    [
        ("old", 100, "container"),
        ("forever", 100, "item (never expires)"),
        ("forever", -1, "item (never expires)"),
        ("old", -1, "container (no default)"),
        ("forever", None, "container (TTL is off)"),
    ],
)
def test_explain_the_ttl_source(
    cli: Cli,
    raw: RawClient,
    container_names: tuple[str, str],
    id_: str,
    default_ttl: int,
    source: str,
) -> None:
    set_default_ttl(raw, container_names, default_ttl)
    found = lines(
        printed_without_warnings(
            cli("ttl", "explain", *container_names, id_, "--partition-key", '"p"')
        )
    )
    assert f"TTL source {source}" in found


def test_explain_a_proposal(
    cli: Cli, container_names: tuple[str, str], clock: MovableClock
) -> None:
    now = int(clock.now())
    command = (
        "ttl",
        "explain",
        *container_names,
        "forever",
        "--partition-key",
        '"p"',
        "--ttl",
        "1m",
    )
    assert f"with ttl 60, written now expires at {instant_text(now + 60)}" in lines(
        printed_without_warnings(cli(*command))
    )


def test_undo(cli: Cli, raw: RawClient, container_names: tuple[str, str]) -> None:
    set_default_ttl(raw, container_names, 8)
    found = lines(printed_without_warnings(cli("ttl", "undo", *container_names)))
    assert found[0] == f"{container_names[0]}/c"
    assert "default ttl 100 s (1m 40s)" in found
    assert any(line.startswith("restored 1 item, ") for line in found)


def test_drain_one_and_all(cli: Cli, container_names: tuple[str, str], clock: MovableClock) -> None:
    clock.advance(5)
    assert lines(printed_without_warnings(cli("ttl", "drain", *container_names))) == [
        "1 purged",
        f"{container_names[0]}/c 1",
    ]
    clock.advance(95)
    assert f"{container_names[0]}/c 2" in lines(printed_without_warnings(cli("ttl", "drain")))
    assert lines(printed_without_warnings(cli("ttl", "drain", *container_names)))[0] == "0 purged"


def test_audit_of_one_and_of_all(
    cli: Cli, raw: RawClient, container_names: tuple[str, str]
) -> None:
    set_default_ttl(raw, container_names, 8)
    for scope in (container_names, ()):
        entries = json.loads(printed_without_warnings(cli("ttl", "audit", *scope, "--json")))[
            "entries"
        ]
        assert "policy" in {entry["event"] for entry in entries}
        text = printed_without_warnings(cli("ttl", "audit", *scope))
        assert "policy" in text
        assert "primary" in text
        assert "/".join(container_names) in text
    last = json.loads(printed_without_warnings(cli("ttl", "audit", *container_names, "--json")))[
        "entries"
    ][-1]["line"]
    after = json.loads(
        printed_without_warnings(
            cli("ttl", "audit", *container_names, "--after", str(last), "--json")
        )
    )
    assert after == {"entries": []}
    assert (
        printed_without_warnings(cli("ttl", "audit", *container_names, "--after", str(last)))
        == "no policy changes\n"
    )
    one = json.loads(
        printed_without_warnings(cli("ttl", "audit", *container_names, "--limit", "1", "--json"))
    )["entries"]
    assert len(one) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("preview", "--default-ttl", "8"),
        ("forecast", "--bucket", "day", "--count", "2"),
        ("explain", "old", "--partition-key", '"p"'),
        ("undo",),
        ("drain",),
        ("audit",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_json_is_the_answer_as_it_came(
    cli: Cli, raw: RawClient, container_names: tuple[str, str], arguments: tuple[str, ...]
) -> None:
    if arguments[0] == "undo":
        set_default_ttl(raw, container_names, 8)
    name, *rest = arguments
    text = printed_without_warnings(cli("ttl", name, *container_names, *rest, "--json"))
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert isinstance(json.loads(text), dict)


def test_json_of_status_equals_the_route(
    cli: Cli, raw: RawClient, container_names: tuple[str, str]
) -> None:
    answer = raw.get("/_perseid/ttl/{}/{}".format(*container_names))
    assert (
        printed_without_warnings(cli("ttl", "status", *container_names, "--json")).encode()
        == answer.body + b"\n"
    )


def test_names_are_data(cli: Cli, raw: RawClient, name: str) -> None:
    """Spaces, markup and percent signs in names reach the server and come back unharmed."""
    odd = f"[red]{name} 50% é"
    assert raw.post("/dbs", {"id": odd}).status == 201
    body = {"id": "c [b]", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}, "defaultTtl": 10}
    assert raw.post(f"/dbs/{odd}/colls", body).status == 201
    item = {"id": "a\x1b[31mb", "pk": "p"}
    assert raw.post(f"/dbs/{odd}/colls/c [b]/docs", item, pk='["p"]').status == 201
    found = lines(printed_without_warnings(cli("ttl", "status", odd, "c [b]")))
    assert found[0].startswith(f"{odd}/c [b] at ")
    text = printed_without_warnings(
        cli("ttl", "explain", odd, "c [b]", item["id"], "--partition-key", '"p"')
    )
    assert "a\N{REPLACEMENT CHARACTER}[31mb at" in text
    raw.delete(f"/dbs/{odd}")


# clock


def test_clock_moves_forward(cli: Cli, clock: MovableClock) -> None:
    now = clock.now()
    assert printed_without_warnings(cli("clock", "show")) == f"{instant_text(now)}, frozen\n"
    assert (
        printed_without_warnings(cli("clock", "advance", "15m"))
        == f"{instant_text(now + 900)}, frozen\n"
    )
    to = int(now) + 4000
    assert printed_without_warnings(cli("clock", "set", str(to))) == f"{instant_text(to)}, frozen\n"
    assert json.loads(printed_without_warnings(cli("clock", "show", "--json"))) == {
        "now": to,
        "movable": True,
        "frozen": True,
        "heldUntil": None,
        "alarm": None,
    }


def test_clock_set_takes_a_date(cli: Cli, clock: MovableClock) -> None:
    clock.set(max(clock.now(), START + 10_000_000))
    later = parse_instant("2040-02-29T12:00:00+01:00")
    text = printed_without_warnings(cli("clock", "set", "2040-02-29T12:00:00+01:00"))
    assert text == f"2040-02-29 11:00:00Z ({later}), frozen\n"


def test_clock_freezes_and_resumes(cli: Cli, clock: MovableClock) -> None:
    assert ", running" in printed_without_warnings(cli("clock", "resume"))
    assert not clock.is_frozen
    assert ", frozen" in printed_without_warnings(cli("clock", "freeze"))
    assert clock.is_frozen


def test_clock_never_goes_back(cli: Cli, clock: MovableClock) -> None:
    result = cli("clock", "set", str(int(clock.now()) - 1))
    assert result.exit_code == 1
    assert "The clock was not moved: the clock only moves forward." in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    "arguments", [("freeze",), ("resume",), ("advance", "1"), ("set", str(START))]
)
def test_a_clock_that_cannot_be_moved(fixed_clock: Settings, arguments: tuple[str, ...]) -> None:
    result = invoke(fixed_clock.endpoint, "clock", *arguments)
    assert result.exit_code == 1
    assert "start it with --test-clock" in result.stderr
    assert ", running, cannot be moved" in printed_without_warnings(
        invoke(fixed_clock.endpoint, "clock", "show")
    )


@pytest.fixture
def fixed_clock(servers: Servers) -> Settings:
    return servers("system").settings


# Failures


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("ttl", "status", "nowhere", "c"), 1, "Owner resource does not exist"),
        (("ttl", "preview", "nowhere", "c", "--default-ttl", "5"), 1, "does not exist"),
        (("ttl", "preview", "nowhere", "c", "--default-ttl", "0"), 1, "The input defaultTtl '0'"),
        (("ttl", "preview", "d", "c", "--default-ttl", "soon"), 2, "'soon' is not a duration"),
        (
            ("ttl", "preview", "d", "c", "--default-ttl", "-5"),
            2,
            "--default-ttl: '-5' is negative; give a duration like 90, 90s, 15m, 2h, 3d or 1w, or"
            " -1 or none (items never expire by default, only by their own ttl), or off",
        ),
        (("ttl", "preview", "d", "c", "--default-ttl", "-5s"), 2, "'-5s' is negative; give"),
        (
            ("ttl", "explain", "d", "c", "i", "--partition-key", "1", "--ttl", "-3"),
            2,
            "'-3' is negative; a ttl is a duration like 90, 90s, 15m, 2h, 3d or 1w, or -1: the",
        ),
        (
            ("ttl", "set", "d", "c", "-5s"),
            2,
            "SECONDS: '-5s' is negative; give a duration like 90, 90s, 15m, 2h, 3d or 1w, or -1"
            " or none (items never expire by default, only by their own ttl), or off (no item"
            " expires).",
        ),
        (("ttl", "set", "d", "c", "soon"), 2, "SECONDS: 'soon' is not a duration; give"),
        (("ttl", "set", "nowhere", "c", "-1"), 1, "There is no container nowhere/c"),
        (("ttl", "preview", "d", "c"), 2, "Missing option '--default-ttl'"),
        (("ttl", "status", "d"), 2, "Missing argument 'CONTAINER'"),
        (("ttl", "drain", "d"), 2, "Give a DATABASE and a CONTAINER, or neither."),
        (("ttl", "audit", "d"), 2, "Give a DATABASE and a CONTAINER, or neither."),
        (("ttl", "explain", "d", "c", "i"), 2, "Missing option '--partition-key'"),
        (("ttl", "explain", "d", "c", "i", "--partition-key", "p"), 2, "'p' is not JSON"),
        (("ttl", "forecast", "d", "c", "--count", "x"), 2, "'x' is not a valid integer"),
        (("clock", "advance", "soon"), 2, "'soon' is not a duration"),
        (("clock", "advance", "--", "-5"), 2, "'-5' is negative, and not a duration like"),
        (("clock", "advance", "-5s"), 2, "'-5s' is negative, and not a duration like"),
        (("clock", "advance", "-2h"), 2, "'-2h' is negative, and not a duration like"),
        (("clock", "advance", "-x"), 2, "No such option '-x'"),
        (("clock", "set", "-5"), 2, "'-5' is neither seconds since 1970 nor a date"),
        (("import", "d", "c", "-", "--age", "-5m"), 2, "'-5m' is negative, and not a duration"),
        (("clock", "set", "tomorrow"), 2, "'tomorrow' is neither seconds since 1970 nor a date"),
        (("clock", "show", "--key", "not base64"), 2, "--key must be base64"),
        (("clock", "show", "--endpoint", "127.0.0.1:8081"), 2, "--endpoint must look like"),
        (("clock", "show", "--endpoint", "http://127.0.0.1:8081/dbs"), 2, "--endpoint must look"),
        (("clock", "show", "--endpoint", "http://127.0.0.1:x/"), 2, "--endpoint must look like"),
        (("clock", "show", "--endpoint", "http:///"), 2, "--endpoint must look like"),
        (("clock", "show", "--endpoint", "http://[::1"), 2, "--endpoint must look like"),
        (("clock", "show", "--endpoint", "http://a..b/"), 2, "--endpoint must look like"),
        (("clock", "show", "--endpoint", f"http://{'a' * 64}/"), 2, "--endpoint must look like"),
        (("clock", "show", "--endpoint", "http://a b/"), 2, "--endpoint must look like"),
        (("clock", "advance", "9" * 400), 2, "is not a duration"),
        (("clock", "set", "9" * 400), 2, "is neither seconds since 1970 nor a date"),
        (("clock", "show", "--key", OTHER_KEY), 1, "does not accept this key"),
    ],
)
def test_failures(cli: Cli, arguments: tuple[str, ...], code: int, message: str) -> None:
    result = cli(*arguments)
    assert result.exit_code == code
    assert message in " ".join(result.stderr.split())
    assert "ActivityId" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("forecast", "--bucket", "fortnight"), "bucket is one of second, minute, hour"),
        (("forecast", "--count", "0"), "count is a whole number from 1 to 1000"),
        (("explain", "missing", "--partition-key", '"p"'), "There is no item with this id"),
        (("explain", "old", "--partition-key", '"p"', "--ttl", "0"), "The input ttl '0'"),
        (("undo",), "There is no change of defaultTtl to undo."),
    ],
)
def test_refusals_about_a_container(
    cli: Cli, container_names: tuple[str, str], arguments: tuple[str, ...], message: str
) -> None:
    name, *rest = arguments
    result = cli("ttl", name, *container_names, *rest)
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Message:" not in result.stderr


def test_the_key_comes_from_option_or_environment() -> None:
    with running(Settings(memory=True, key=OTHER_KEY)) as found:
        assert invoke(found.endpoint, "clock", "show").exit_code == 1
        printed_without_warnings(invoke(found.endpoint, "clock", "show", key=OTHER_KEY))
        printed_without_warnings(invoke(found.endpoint, "clock", "show", "--key", OTHER_KEY))


def test_a_read_only_key_may_not_administer() -> None:
    with running(Settings(memory=True, read_only_key=OTHER_KEY)) as found:
        clock = invoke(found.endpoint, "clock", "show", key=OTHER_KEY)
        result = invoke(found.endpoint, "ttl", "audit", key=OTHER_KEY)
    assert clock.exit_code == 0
    assert result.exit_code == 1
    assert "The key used can only read." in result.stderr


def test_nothing_listens() -> None:
    result = invoke(f"http://127.0.0.1:{free_port()}/", "clock", "show")
    assert result.exit_code == 1
    assert "No server answers at http://127.0.0.1:" in result.stderr
    assert "perseid serve" in result.stderr


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"<html>"),
        (404, b'["a"]'),
        (404, b'{"a": 1}'),
        (200, b'{"now": 1}'),
        (400, b'{"message": "Message: {"}'),
        (429, b'{"message": "later"}'),
    ],
)
def test_another_program_listens(status: int, body: bytes) -> None:
    class OtherProgram(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("x-ms-retry-after-ms", "soon")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    with HTTPServer(("127.0.0.1", 0), OtherProgram) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        result = invoke(f"http://127.0.0.1:{server.server_port}/", "clock", "show")
        thread.join()
    assert result.exit_code == 1
    assert f"is not a Perseid server: it responded with HTTP {status}." in result.stderr


def test_a_server_that_is_busy_is_asked_again() -> None:
    """With `--enforce-throughput` a page may have to wait for the next second."""
    asked = []

    class Busy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(429 if len(asked) < 3 else 200)
            self.send_header("x-ms-activity-id", "a")
            self.send_header("x-ms-retry-after-ms", "1")
            self.end_headers()
            self.wfile.write(b'{"message": "Request rate is large."}' if len(asked) < 3 else CLOCK)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    with HTTPServer(("127.0.0.1", 0), Busy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        result = invoke(f"http://127.0.0.1:{server.server_port}/", "clock", "show")
        server.shutdown()
    assert "2033-05-18" in printed_without_warnings(result)
    assert len(asked) == 3


def test_a_server_that_closes_the_connection() -> None:
    """Once it has answered, it is not the protocol that is wrong."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)

        def serve() -> None:
            for answer in (ANSWERED, b""):
                taken, _ = server.accept()
                with taken:
                    taken.recv(65536)
                    taken.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with Connection(f"http://127.0.0.1:{server.getsockname()[1]}/", OTHER_KEY) as connection:
            assert connection.request("GET", ("dbs",), ("dbs", "")).status == 200
            with pytest.raises(click.ClickException, match="closed the connection"):
                connection.request("GET", ("dbs",), ("dbs", ""))
        thread.join()


def test_ctrl_c_leaves_the_next_request_alone(endpoint: str, key: str) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with Connection(endpoint, key) as connection:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(http.client.HTTPConnection, "getresponse", interrupted)
            with pytest.raises(KeyboardInterrupt):
                database_names(connection)
        assert isinstance(database_names(connection), list)


def test_https_on_loopback_needs_no_certificate_store() -> None:
    with running(Settings(memory=True, tls=True)) as found:
        assert found.endpoint.startswith("https://")
        printed_without_warnings(invoke(found.endpoint, "clock", "show"))
        plain = invoke(found.endpoint.replace("https", "http"), "clock", "show")
    assert plain.exit_code == 1
    assert "use https:// in the endpoint" in plain.stderr


def test_https_with_a_server_that_has_none(cli: Cli, endpoint: str) -> None:
    result = cli("clock", "show", "--endpoint", endpoint.replace("http", "https"))
    assert result.exit_code == 1
    assert "If this is the server's port for HTTP, use http:// in the endpoint." in result.stderr


@pytest.mark.parametrize(
    ("host", "mode"),
    [
        ("127.0.0.1", ssl.CERT_NONE),
        ("::1", ssl.CERT_NONE),
        ("localhost", ssl.CERT_NONE),
        ("example.org", ssl.CERT_REQUIRED),
        ("10.0.0.1", ssl.CERT_REQUIRED),
        ("localhost.example.org", ssl.CERT_REQUIRED),
    ],
)
def test_only_this_machine_is_trusted_unseen(host: str, mode: ssl.VerifyMode) -> None:
    context = ssl_context_for(host)
    assert context.verify_mode == mode
    assert context.check_hostname == (mode == ssl.CERT_REQUIRED)


def test_a_refusal_knows_its_status(endpoint: str, key: str) -> None:
    with pytest.raises(Refused) as refused:
        AdminClient(endpoint, key).get("nothing", "here")
    assert refused.value.status == 404


# Times


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("3d", 259_200), ("1w", 604_800),
        ("0", 0), ("1.5", 1.5), ("1.5h", 5400), ("0.5s", 0.5),
    ],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert type(parse_duration(text)) is type(seconds)


@pytest.mark.parametrize("text", ["", "h", "-1", "1 h", "1x", "1e3", "½", "١", "1h30m"])
def test_what_is_not_a_duration(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "default_ttl"),
    [("off", None), ("OFF", None), ("none", -1), ("None", -1), ("-1", -1), ("1d", 86_400)],
)
def test_default_ttls(text: str, default_ttl: int | None) -> None:
    assert parse_default_ttl(text) == default_ttl


@pytest.mark.parametrize(
    ("text", "epoch"),
    [
        ("0", 0),
        ("2000000000.5", 2_000_000_000.5),
        ("20300131", 20_300_131),  # digits are seconds, never a date
        ("2030-01-31", 1_896_048_000),
        ("2030-01-31T00:00:00Z", 1_896_048_000),
        ("2030-01-31 01:00:00+01:00", 1_896_048_000),
        ("2030-01-31T00:00:00.25", 1_896_048_000.25),
    ],
)
def test_instants(text: str, epoch: float) -> None:
    assert parse_instant(text) == epoch


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (3661, "1h 1m"), (86_400 * 400 + 5, "400d 5s")],
)
def test_duration_texts(seconds: int, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "never"),
        (0, "1970-01-01 00:00:00Z (0)"),
        (1_896_048_000.9, "2030-01-31 00:00:00Z (1896048000)"),
        (10**15, "1000000000000000"),  # beyond the calendar
    ],
)
def test_instant_texts(seconds: float | None, text: str) -> None:
    assert instant_text(seconds) == text
