"""The pytest plugin, in sessions of its own: fixtures, marker, clock, settings, xdist."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from contextlib import closing
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from perseid.config import WELL_KNOWN_KEY, Settings
from tests.support.processes import environment
from tests.support.raw import RawClient
from tests.support.running import running

ROOT = Path(__file__).parents[2]
PYTEST = (ROOT / "docs" / "pytest.md").read_text()
IS_INSTALLED = any(each.name == "perseid" for each in entry_points(group="pytest11"))


def run_pytest(folder: Path, *options: str, with_all: bool = False) -> tuple[int, str]:
    """Runs pytest on a folder; its exit code and everything it printed.

    Without the other plugins that are installed, unless it is to be `with_all`: loading them takes
    longer than the session.
    """
    plugin = () if with_all and IS_INSTALLED else ("-p", "perseid.testing.pytest_plugin")
    alone = {} if with_all else {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    common = ("-p", "no:cacheprovider", "-o", "filterwarnings=error", "-q", "--strict-markers")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, *common, *options, str(folder)],
        env=environment_outside_pytest() | alone,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    return done.returncode, done.stdout + done.stderr


def environment_outside_pytest() -> dict[str, str]:
    """The variables of this process, without those that show a pytest session around it."""
    variables = environment()
    return {name: value for name, value in variables.items() if not name.startswith("PYTEST")}


def suite(folder: Path, text: str, *options: str, ini: str = "") -> str:
    """What a session with this test file says, which must succeed."""
    (folder / "test_it.py").write_text(textwrap.dedent(text))
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}")
    code, output = run_pytest(folder, *options)
    assert code == 0, output
    return output


def test_the_demonstration() -> None:
    """A session store tested with the fixtures alone, time to live included."""
    code, output = run_pytest(ROOT / "examples" / "session_store")
    assert code == 0, output
    print(output.splitlines()[-1])
    assert re.search(r"10 passed in", output)
    sources = [path.read_text() for path in (ROOT / "examples" / "session_store").glob("*.py")]
    assert not any("sleep" in text.replace("no sleep", "") for text in sources)


def test_the_demonstration_under_xdist() -> None:
    code, output = run_pytest(ROOT / "examples" / "session_store", "-n", "2", with_all=True)
    assert code == 0, output
    assert "10 passed" in output


def test_asynchronous_fixtures_say_what_they_need(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\nsys.modules['aiohttp'] = None\ndef test_it(async_cosmos_client): pass\n"
    )
    code, output = run_pytest(tmp_path)
    assert code == 1
    assert "The asynchronous client needs: pip install aiohttp" in output


CONTAINERS = """
    import pytest

    pytestmark = pytest.mark.cosmos(partition_key="/user", default_ttl=60)
    seen = []

    @pytest.mark.parametrize("_", range(2))
    def test_fresh(cosmos_container, _):
        cosmos_container.create_item({"id": "a", "user": "ada"})
        found = cosmos_container.read()
        assert found["defaultTtl"] == 60
        assert found["partitionKey"]["paths"] == ["/user"]
        assert found["_rid"] not in seen
        seen.append(found["_rid"])

    @pytest.mark.cosmos(default_ttl=None, partition_key=["/a", "/b"])
    @pytest.mark.cosmos(unique_key_policy={"uniqueKeys": [{"paths": ["/m"]}]})
    def test_the_nearest_wins(cosmos_container):
        found = cosmos_container.read()
        assert "defaultTtl" not in found
        assert found["partitionKey"]["kind"] == "MultiHash"
        assert found["uniqueKeyPolicy"]["uniqueKeys"]

    @pytest.mark.cosmos(items=[{"id": "a", "user": "x"}, {"id": "b", "user": "y"}])
    def test_items(cosmos_container):
        assert len(list(cosmos_container.read_all_items())) == 2

    class TestClass:
        pytestmark = pytest.mark.cosmos(id="named", offer_throughput=1000)

        def test_names(self, cosmos_container, cosmos_database):
            assert [each["id"] for each in cosmos_database.list_containers()] == ["named"]
            assert cosmos_container.get_throughput().offer_throughput == 1000
            assert cosmos_container.read()["defaultTtl"] == 60

    def test_a_database_may_be_deleted_by_the_test(cosmos_client, cosmos_database):
        cosmos_client.delete_database(cosmos_database)

    def test_afterwards(cosmos_client):
        assert list(cosmos_client.list_databases()) == []
"""
CLOCK = """
    from datetime import UTC, datetime, timedelta

    import pytest
    from azure.cosmos.exceptions import CosmosResourceNotFoundError

    @pytest.mark.cosmos(default_ttl=10)
    def test_to_the_second(cosmos_container, perseid_clock):
        start = perseid_clock.now()
        assert start == int(start) == perseid_clock.freeze()
        assert cosmos_container.create_item({"id": "a", "pk": "p"})["_ts"] == start
        assert perseid_clock.advance(9) == start + 9
        cosmos_container.read_item("a", partition_key="p")
        perseid_clock.set(start + 10)
        with pytest.raises(CosmosResourceNotFoundError):
            cosmos_container.read_item("a", partition_key="p")
        with pytest.raises(ValueError, match="only moves forward"):
            perseid_clock.advance(-1)
        with pytest.raises(ValueError, match="only moves forward"):
            perseid_clock.set(start)

    @pytest.mark.cosmos(default_ttl=-1, items=[{"id": "a", "pk": "p", "ttl": 10}])
    def test_items_of_the_marker_are_as_old_as_the_test(cosmos_container, perseid_clock):
        assert cosmos_container.read_item("a", partition_key="p")["_ts"] == perseid_clock.now()
        perseid_clock.advance(9)
        cosmos_container.read_item("a", partition_key="p")
        perseid_clock.advance(1)
        assert list(cosmos_container.read_all_items()) == []

    def test_dates_and_differences(perseid_clock):
        start = perseid_clock.now()
        assert perseid_clock.advance(timedelta(minutes=2)) == start + 120
        later = datetime.fromtimestamp(start + 180, UTC)
        assert perseid_clock.set(later) == start + 180
        assert perseid_clock.set(later.replace(tzinfo=None) + timedelta(1)) == start + 180 + 86400
        for value in ("1h", None, True, later):
            with pytest.raises(TypeError, match="takes seconds or a timedelta, not"):
                perseid_clock.advance(value)
        with pytest.raises(TypeError, match="takes seconds since 1970 or a datetime, not '2030"):
            perseid_clock.set("2030-01-01")

    def test_it_runs_afterwards(perseid):
        before = perseid.clock.now()
        while perseid.clock.now() == before:
            pass

    def test_it_can_run(perseid_clock):
        before = perseid_clock.resume()
        while perseid_clock.now() == before:
            pass
"""
ASYNCHRONOUS = """
    import asyncio
    import pytest

    pytestmark = pytest.mark.cosmos(default_ttl=10)

    async def work(container, clock):
        async with container as items:
            await items.create_item({"id": "a", "pk": "p"})
            found = [item["id"] async for item in items.query_items("SELECT * FROM c")]
            clock.advance(10)
            return found, [item async for item in items.read_all_items()]

    @pytest.mark.parametrize("_", range(2))
    def test_without_a_plugin(async_cosmos_container, perseid_clock, _):
        assert asyncio.run(work(async_cosmos_container, perseid_clock)) == (["a"], [])

    def test_the_client(async_cosmos_client, cosmos_database):
        async def names():
            async with async_cosmos_client as client:
                return [each["id"] async for each in client.list_databases()]

        assert asyncio.run(names()) == [cosmos_database.id]

    def test_one_after_the_other_and_side_by_side(async_cosmos_client, async_cosmos_container):
        async def names():
            async with async_cosmos_client as client:
                async with async_cosmos_container as first, async_cosmos_container as second:
                    await first.create_item({"id": "a", "pk": "p"})
                    await second.create_item({"id": "b", "pk": "p"})
                async with async_cosmos_container as again:
                    found = [item["id"] async for item in again.read_all_items()]
                return found, [each["id"] async for each in client.list_databases()]

        found, databases = asyncio.run(names())
        assert (found, len(databases)) == (["a", "b"], 1)

    async def test_a_coroutine(async_cosmos_container, perseid_clock):
        assert await work(async_cosmos_container, perseid_clock) == (["a"], [])
"""
RUNS_COROUTINES = '''
    import asyncio, inspect

    def pytest_pyfunc_call(pyfuncitem):
        """Runs coroutines as tests, as pytest-asyncio and anyio do."""
        if inspect.iscoroutinefunction(pyfuncitem.obj):
            names = inspect.signature(pyfuncitem.obj).parameters
            given = {name: pyfuncitem.funcargs[name] for name in names}
            asyncio.run(pyfuncitem.obj(**given))
            return True
'''


def documented_files() -> dict[str, str]:
    """The blocks of the page: a comment in the first line names the file, as in the text."""
    files: dict[str, str] = {}
    for block in re.findall(r"```python\n(.*?)```", PYTEST, re.DOTALL):
        named = re.match(r"# (\w+\.py)\n", block)
        name = "test_documented.py" if named is None else named[1]
        files[name] = f"{files.get(name, '')}\n{block}"
    return files


def test_the_fixtures(tmp_path: Path) -> None:
    """One session for all of them: each test inside says what it is about."""
    files = {
        "conftest.py": RUNS_COROUTINES,
        "test_containers.py": CONTAINERS,
        "test_clock.py": CLOCK,
        "test_async.py": ASYNCHRONOUS,
        **documented_files(),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(textwrap.dedent(text))
    code, output = run_pytest(tmp_path)
    assert code == 0, output
    assert "22 passed" in output


def test_options_for_the_server(tmp_path: Path) -> None:
    (tmp_path / "start.json").write_text('{"databases": [{"id": "declared"}]}')
    text = """
        def test_settings(cosmos_client, perseid):
            assert [each["id"] for each in cosmos_client.list_databases()] == ["declared"]
            policy = cosmos_client.get_database_account().ConsistencyPolicy
            assert policy["defaultConsistencyLevel"] == "Eventual"
            assert perseid.connection_string == (
                f"AccountEndpoint={perseid.endpoint};AccountKey={perseid.key};"
            )
    """
    options = "--init start.json --consistency Eventual"
    suite(tmp_path, text, ini=f"perseid_options = {options}")
    below = tmp_path / "below"
    below.mkdir()
    (tmp_path / "test_it.py").rename(below / "test_it.py")
    code, output = run_pytest(below)  # paths of the ini file are seen from there
    assert code == 0, output


@pytest.mark.parametrize("is_option", [False, True])
def test_a_relaxed_server(tmp_path: Path, is_option: bool) -> None:
    """Groups over all partitions, which the Python client cannot merge."""
    text = """
        def test_groups(cosmos_container):
            for n in range(3):
                cosmos_container.create_item({"id": str(n), "pk": f"p{n}", "kind": "a"})
            rows = cosmos_container.query_items(
                "SELECT c.kind, COUNT(1) AS n FROM c GROUP BY c.kind",
                enable_cross_partition_query=True,
            )
            assert list(rows) == [{"kind": "a", "n": 3}]
    """
    if is_option:
        suite(tmp_path, text, "--perseid-options=--relaxed")
    else:
        suite(tmp_path, text, ini="perseid_options = --relaxed")


def test_https_without_warnings(tmp_path: Path) -> None:
    text = """
        import asyncio
        from urllib.request import urlopen
        import ssl

        def test_clients(cosmos_container, async_cosmos_container, perseid_clock):
            cosmos_container.create_item({"id": "a", "pk": "p"})
            async def read():
                async with async_cosmos_container as items:
                    return await items.read_item("a", partition_key="p")
            assert asyncio.run(read())["id"] == "a"
            perseid_clock.advance(1)

        def test_others(perseid):
            trusting = ssl.create_default_context(cafile=perseid.certificate)
            assert urlopen(f"{perseid.endpoint}_perseid/health", context=trusting).status == 200
    """
    suite(tmp_path, text, "--perseid-options=--tls")


def test_a_server_that_runs_already(tmp_path: Path, endpoint: str) -> None:
    text = f"""
        def test_it(cosmos_container, perseid):
            assert perseid.endpoint == "{endpoint}"
            cosmos_container.create_item({{"id": "a", "pk": "p"}})
    """
    suite(tmp_path, text, f"--perseid-endpoint={endpoint}", ini="perseid_endpoint = elsewhere")
    with closing(RawClient(endpoint)) as raw:
        names = [each["id"] for each in raw.get("/dbs").json["Databases"]]
    assert not any(name.startswith("test-") for name in names)


def test_sessions_with_one_process_id_share_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of two containers do; here the first one was killed and left its database."""
    text = """
        import os
        os.getpid = lambda: 7

        def test_it(cosmos_container):
            cosmos_container.create_item({"id": "a", "pk": "p"})
            if os.environ.get("KILLED"):
                os._exit(7)
    """
    (tmp_path / "test_it.py").write_text(textwrap.dedent(text))
    with running(Settings(memory=True)) as settings:
        option = f"--perseid-endpoint={settings.endpoint}"
        monkeypatch.setenv("KILLED", "1")
        assert run_pytest(tmp_path, option)[0] == 7
        monkeypatch.delenv("KILLED")
        suite(tmp_path, text, option)


@pytest.mark.parametrize(
    ("body", "options", "message"),
    [
        ("def test(perseid): ...", "--perseid-options=--nonsense", "No such option"),
        (
            "def test(perseid): ...",
            "--perseid-options=--init nothing",
            "cannot read the start file",
        ),
        ("def test(perseid): ...", "--perseid-options=--data kept", "remove --data"),
        ("def test(perseid): ...", "--perseid-options=--port 8081", "remove --port"),
        (
            "import pytest\n@pytest.mark.cosmos('/pk')\ndef test(cosmos_container): ...",
            "",
            "takes keyword arguments only",
        ),
        (
            "import pytest\n@pytest.mark.cosmos(patrition_key='/pk')\n"
            "def test(cosmos_container): ...",
            "",
            "does not accept 'patrition_key'; it accepts items, id, partition_key, ",
        ),
        (
            "def test(perseid): ...",
            "--perseid-endpoint=http://127.0.0.1:1/",
            "no server answers at http://127.0.0.1:1/: Connection refused.",
        ),
        (
            "def test(perseid): ...",
            "--perseid-endpoint=localhost:8081",
            "it must look like http://127.0.0.1:8081/",
        ),
        ("def test(perseid): ...", "--perseid-endpoint=http://[::1", "no server answers at"),
        (
            "def test(perseid): ...",
            "--perseid-endpoint=http://127.0.0.1:1/dbs",
            "it must look like http://127.0.0.1:8081/",
        ),
        ("def test(perseid): ...", "--perseid-options=--help", "--help does not start a server"),
        ("def test(perseid): ...", "--perseid-options=--init 'x", "No closing quotation in: --in"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, body: str, options: str, message: str) -> None:
    (tmp_path / "test_it.py").write_text(body)
    code, output = run_pytest(tmp_path, *filter(None, [options]))
    assert code != 0
    assert message in output
    assert "UsageError" in output


def test_a_failure_shows_the_line_that_failed_and_no_key(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "def test_back(perseid_clock, perseid):\n    perseid_clock.set(0)\n"
        "def test_words(perseid_clock):\n    perseid_clock.advance('1h')\n"
    )
    code, output = run_pytest(tmp_path)
    assert code == 1
    assert ">       perseid_clock.set(0)\nE       ValueError: The clock was not moved:" in output
    assert (
        ">       perseid_clock.advance('1h')\nE       TypeError: the clock takes seconds" in output
    )
    assert "pytest_plugin.py" not in output
    assert WELL_KNOWN_KEY not in output


def test_a_key_that_is_none(tmp_path: Path, endpoint: str) -> None:
    (tmp_path / "test_it.py").write_text("def test(cosmos_client): ...")
    output = run_pytest(tmp_path, f"--perseid-endpoint={endpoint}", "--perseid-key=abc")[1]
    assert "UsageError: perseid_key must be base64" in output


def test_a_key_without_its_server(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test(perseid): ...")
    code, output = run_pytest(tmp_path, f"--perseid-key={WELL_KNOWN_KEY}")
    assert code == 1
    assert "UsageError: --perseid-key needs --perseid-endpoint" in output
    assert WELL_KNOWN_KEY not in output


def test_the_environment_is_for_other_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERSEID_STORE", "postgresql://user@localhost/production")
    monkeypatch.setenv("PERSEID_HOST", "0.0.0.0")
    text = "def test_it(perseid): assert perseid.endpoint.startswith('http://127.0.0.1:')"
    suite(tmp_path, text)
    suite(tmp_path, text, "--perseid-options=--no-sweeper")


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, perseid.testing.pytest_plugin;"
        "heavy = {'granian', 'apsw', 'azure', 'click', 'rich', 'orjson', 'asyncio.base_events'};"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment_outside_pytest(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_marker_and_the_settings_explain_themselves(tmp_path: Path) -> None:
    assert "cosmos(partition_key" in run_pytest(tmp_path, "--markers")[1]
    output = run_pytest(tmp_path, "--help")[1]
    for name in ("--perseid-endpoint", "--perseid-key", "--perseid-options", "perseid_options"):
        assert name in output
