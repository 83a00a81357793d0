"""`--connection-string` and PERSEID_CONNECTION_STRING: what they select, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner, Result

from perseid.commands.cli import main
from perseid.commands.connection_string import is_same_endpoint, parse_connection_string
from perseid.config import Settings
from tests.support.cli import all_commands, printed
from tests.support.running import running

KEY = "a2V5IG9mIHRoZSBzZXJ2ZXIgd2l0aCBzaXh0eSBmb3VyIGJ5dGVz"
OTHER_KEY = "b3RoZXIga2V5IG9mIHRoZSBzZXJ2ZXIgd2l0aCBzaXh0eSBieXRlcw=="
NOWHERE = "http://127.0.0.1:1/"


@pytest.fixture(scope="module")
def place() -> Iterator[Settings]:
    """A server whose key is not the well-known one."""
    with running(Settings(memory=True, key=KEY)) as settings:
        yield settings


def string_of(endpoint: str, key: str = KEY) -> str:
    return f"AccountEndpoint={endpoint};AccountKey={key};"


def perseid(*arguments: str, **variables: str) -> Result:
    """Runs a command without the variables of the process."""
    names = ("ENDPOINT", "KEY", "CONNECTION_STRING")
    environment = {f"PERSEID_{name}": variables.get(name.lower()) for name in names}
    return CliRunner().invoke(main, arguments, env=environment)


def test_the_option_selects_server_and_key(place: Settings) -> None:
    printed(perseid("clock", "show", "--connection-string", string_of(place.endpoint)))


def test_the_variable_selects_server_and_key(place: Settings) -> None:
    printed(perseid("clock", "show", connection_string=string_of(place.endpoint)))


@pytest.mark.parametrize(
    "command",
    [("clock", "show"), ("ttl", "audit"), ("doctor",), ("portal", "--print"), ("db", "list")],
)
def test_every_kind_of_command_takes_it(place: Settings, command: tuple[str, ...]) -> None:
    printed(perseid(*command, connection_string=string_of(place.endpoint)))


def test_no_command_has_an_endpoint_without_it() -> None:
    for name, command in all_commands():
        flags = {flag for option in command.params for flag in option.opts}
        if "--endpoint" in flags:
            assert "--connection-string" in flags, name


def test_the_command_line_has_precedence_over_the_environment(place: Settings) -> None:
    here, nowhere = string_of(place.endpoint), string_of(NOWHERE, OTHER_KEY)
    show = ("clock", "show")
    printed(perseid(*show, "--connection-string", here, endpoint=NOWHERE, key=OTHER_KEY))
    printed(perseid(*show, "--connection-string", here, connection_string=nowhere))
    printed(
        perseid(
            *show, "--endpoint", place.endpoint, connection_string=string_of(NOWHERE)
        )
    )  # fmt: skip
    printed(
        perseid(
            *show, "--key", KEY, connection_string=string_of(place.endpoint, OTHER_KEY)
        )
    )  # fmt: skip


def test_the_same_values_twice_do_not_contradict(place: Settings) -> None:
    endpoint = place.endpoint.rstrip("/").replace("http", "HTTP")
    string = string_of(place.endpoint)
    options = ("--endpoint", endpoint, "--key", KEY, "--connection-string", string)
    printed(perseid("clock", "show", *options))
    printed(perseid("clock", "show", endpoint=endpoint, key=KEY, connection_string=string))


@pytest.mark.parametrize("name", ["endpoint", "key"])
def test_contradictions_are_refused_without_the_values(place: Settings, name: str) -> None:
    value = {"endpoint": NOWHERE, "key": OTHER_KEY}[name]
    string = string_of(place.endpoint)
    result = perseid("clock", "show", f"--{name}", value, "--connection-string", string)
    assert result.exit_code == 2
    message = f"--{name} and --connection-string name different {name}s; give only one of them."
    assert message in result.stderr
    assert not any(key in result.output for key in (KEY, OTHER_KEY))
    from_environment = perseid("clock", "show", connection_string=string, **{name: value})
    assert from_environment.exit_code == 2
    assert f"PERSEID_{name.upper()} and PERSEID_CONNECTION_STRING" in from_environment.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it has no AccountEndpoint"),
        (KEY, "its part 1 is not of the form name=value"),
        (f"AccountKey={KEY}", "it has no AccountEndpoint"),
        (f"AccountEndpoint=;AccountKey={KEY}", "it has no AccountEndpoint"),
        (f"AccountEndpoint={NOWHERE};", "it has no AccountKey"),
        (f"AccountEndpoint={NOWHERE};{KEY}", "its part 2 is not of the form name=value"),
        (f"AccountEndpoint={NOWHERE},AccountKey={KEY}", "it has no AccountKey"),
        (f"{string_of(NOWHERE)}accountkey={KEY}", "its part 3 repeats a name"),
        (string_of(f"127.0.0.1/{KEY}"), "its AccountEndpoint is not an address with http"),
        (string_of(f"{NOWHERE},AccountKey={KEY}"), "its AccountEndpoint is not an address"),
        (string_of(NOWHERE, f"{KEY}*"), "its AccountKey is not base64"),
    ],
)
def test_malformed_strings_are_refused_and_not_printed(text: str, reason: str) -> None:
    result = perseid("clock", "show", "--connection-string", text)
    assert result.exit_code == 2
    message = " ".join(result.stderr.split())
    assert "--connection-string must look like AccountEndpoint=http://127.0.0.1:8081/" in message
    assert reason in message
    assert KEY not in result.output


def test_a_connection_string_as_endpoint_is_not_printed() -> None:
    result = perseid("clock", "show", "--endpoint", string_of(NOWHERE))
    assert result.exit_code == 2
    assert "use --connection-string" in result.stderr
    assert KEY not in result.output


def test_a_refused_key_is_not_printed(place: Settings) -> None:
    result = perseid("clock", "show", connection_string=string_of(place.endpoint, OTHER_KEY))
    assert (result.exit_code, "does not accept this key" in result.stderr) == (1, True)
    assert OTHER_KEY not in result.output


@pytest.mark.parametrize(
    "text",
    [
        f"AccountEndpoint={NOWHERE};AccountKey={OTHER_KEY}",
        f" accountkey = {OTHER_KEY} ;; ACCOUNTENDPOINT={NOWHERE} ; ",
        f"AccountEndpoint={NOWHERE};AccountKey={OTHER_KEY};Database=shop;Other=a=b;",
    ],
)
def test_forms_that_sdks_take(text: str) -> None:
    assert parse_connection_string(text) == (NOWHERE, OTHER_KEY)


def test_keys_may_hold_equal_signs_only_at_their_end() -> None:
    with pytest.raises(click.UsageError):
        parse_connection_string(string_of(NOWHERE, "a=b"))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("http://a/", "http://A", True),
        ("https://a/", "https://a:443", True),
        ("http://a:80", "http://a", True),
        ("http://a/", "https://a/", False),
        ("http://a:1/", "http://a:2/", False),
        ("http://a/", "http://b/", False),
    ],
)
def test_endpoints_are_compared_by_their_parts(one: str, other: str, is_same: bool) -> None:
    assert is_same_endpoint(one, other) is is_same
