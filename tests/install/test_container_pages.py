"""Files in the pages about containers and CI: they can be read, and start a server that works."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from perseid.commands.connection_string import parse_connection_string
from perseid.config import Settings
from tests.install import smoke
from tests.support.pages import DOCS, blocks
from tests.support.processes import environment
from tests.support.raw import RawClient

PAGES = ("docker", "docker-compose", "testcontainers", "aspire", "github-actions")
VARIABLES = {f"PERSEID_{field.name.upper()}" for field in dataclasses.fields(Settings)}
START = "databases: [{id: shop, containers: [{id: orders, partitionKey: /customer}]}]"


def texts(page: str, language: str) -> list[str]:
    return [block.text for block in blocks(DOCS / f"{page}.md") if block.language == language]


def compose_files() -> list[dict[str, Any]]:
    return [yaml.safe_load(text) for text in texts("docker-compose", "yaml")]


@contextmanager
def served(folder: Path, variables: Mapping[str, str]) -> Iterator[int]:
    """A server that is started as in the image, with these variables; its port."""
    port = smoke.free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "perseid", "serve"],
        cwd=folder,
        env=environment() | {"PERSEID_HOST": "0.0.0.0", "PERSEID_PORT": str(port), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert server.stdout is not None
    with server:
        try:
            said = ""
            for line in server.stdout:
                said += line
                if "Ctrl-C" in line:
                    break
            assert "is ready" in said, said
            yield port
        finally:
            server.kill()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_was_run_and_what_was_never_run(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text().partition("\n## What was run\n")[2]
    assert "Never run" in text


@pytest.mark.parametrize("page", PAGES)
def test_variables_of_a_page_are_settings(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text()
    assert set(re.findall(r"PERSEID_[A-Z_]+", text)) <= VARIABLES


@pytest.mark.parametrize("page", PAGES)
def test_yaml_blocks_are_yaml(page: str) -> None:
    for text in texts(page, "yaml"):
        assert isinstance(yaml.safe_load(text), dict)


def test_compose_files_are_complete() -> None:
    files = compose_files()
    assert len(files) == 5
    for file in files:
        assert file.keys() <= {"services", "volumes"}
        for service in file["services"].values():
            assert ("image" in service) != ("build" in service)
            assert all(isinstance(value, str) for value in service["environment"].values())
            assert service.get("image") != "perseid" or "healthcheck" not in service
            for name, needed in service.get("depends_on", {}).items():
                assert name in file["services"]
                assert needed == {"condition": "service_healthy"}
            for volume in service.get("volumes", []):
                assert volume.split(":")[0] in file["volumes"]


def test_the_first_compose_file_starts_a_server_with_the_name_of_its_service(
    tmp_path: Path,
) -> None:
    services = compose_files()[0]["services"]
    with served(tmp_path, services["cosmos"]["environment"]) as port:
        endpoint = services["app"]["environment"]["COSMOS_ENDPOINT"]
        with closing(RawClient(f"http://127.0.0.1:{port}/")) as raw:
            reply = raw.request("GET", "/", headers={"host": urlsplit(endpoint).netloc})
        (location,) = reply.json["writableLocations"]
        assert location["databaseAccountEndpoint"] == endpoint


def test_a_file_for_microsofts_image_and_the_one_that_replaces_it(tmp_path: Path) -> None:
    """The new connection string leads to the server; a health check of one's own would fail."""
    before, after = (file["services"] for file in compose_files()[1:3])
    assert "microsoft" in before["cosmos"]["image"]
    assert before["app"].keys() == after["app"].keys()
    old, new = (each["app"]["environment"] for each in (before, after))
    assert old.keys() == new.keys() == {"ConnectionStrings__cosmos"}
    string = parse_connection_string(new["ConnectionStrings__cosmos"])
    assert string.endpoint == "http://cosmos:8081/"
    with served(tmp_path, after["cosmos"]["environment"]) as port:
        host = {"host": urlsplit(string.endpoint).netloc}
        with closing(RawClient(f"http://127.0.0.1:{port}/", string.key)) as raw:
            assert raw.request("GET", "/", headers=host).status == 200
            assert raw.request("GET", "/", headers=host, sign_with=None).status == 401
            assert raw.request("GET", "/_perseid/ready", sign_with=None).status == 200


def test_a_certificate_for_the_name_of_a_container(tmp_path: Path) -> None:
    (script,) = (text for text in texts("docker", "sh") if "openssl req" in text)
    commands = [line for line in script.splitlines() if not line.startswith("sudo chown")]
    subprocess.run(["bash", "-ec", "\n".join(commands)], cwd=tmp_path, check=True)
    variables = {
        "PERSEID_TLS": "1",
        "PERSEID_CERT": "certificates/cert.pem",
        "PERSEID_KEY_FILE": "certificates/key.pem",
        "PERSEID_MEMORY": "1",
        "PERSEID_ALLOW_WELL_KNOWN_KEY": "1",
    }
    text = (DOCS / "docker.md").read_text()
    assert all(f"`{name}=/{variables[name]}`" in text for name in [*variables][1:3])
    trusted = ssl.create_default_context(cafile=tmp_path / "certificates" / "cert.pem")
    with (
        served(tmp_path, variables) as port,
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        trusted.wrap_socket(plain, server_hostname="cosmos") as secure,
    ):
        secure.sendall(b"GET /_perseid/ready HTTP/1.1\r\nhost: cosmos\r\n\r\n")
        assert secure.recv(100).startswith(b"HTTP/1.1 200 ")


def test_the_derived_image_starts_a_server_with_its_start_file(tmp_path: Path) -> None:
    (text,) = texts("docker", "dockerfile")
    (line,) = re.findall(r"^ENV (.*)$", text, re.MULTILINE)
    variables = dict(each.split("=") for each in line.split())
    (tmp_path / "start.yaml").write_text(START)
    assert variables["PERSEID_INIT"] == "/start.yaml"
    with served(tmp_path, variables | {"PERSEID_INIT": "start.yaml"}) as port:
        query = ("query", "shop", "orders", "SELECT VALUE COUNT(1) FROM c", "--json")
        assert json.loads(smoke.run(tmp_path, port, *query))["items"] == [0]


def test_the_job_for_other_languages_starts_a_server(tmp_path: Path) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    job = yaml.safe_load(texts("github-actions", "yaml")[1])["jobs"]["test"]
    (step,) = [step for step in job["steps"] if step.get("name") == "Start Perseid"]
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "start.yaml").write_text(START)
    command = tmp_path / "bin" / "perseid"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m perseid "$@"\n')
    command.chmod(0o755)
    port = str(smoke.free_port())
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"].replace("8081", port) + "echo\necho $!"],
        cwd=tmp_path,
        env=environment() | {"PATH": path, "PERSEID_PORT": port},
        stdout=subprocess.PIPE,
        text=True,
        timeout=smoke.SECONDS,
        check=True,
    )
    os.kill(int(done.stdout.split()[-1]), signal.SIGTERM)
