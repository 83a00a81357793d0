"""The official clients for Python, JavaScript, Java and Go: one program each.

A program prints a line for each check. What is compiled is kept in the usual caches of its tools
and in the user's cache folder, never in the source tree. `make test` runs them over HTTP;
`make clients` sets PERSEID_CLIENTS=all and runs them over HTTPS, too, on both databases.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from perseid.clock import MovableClock
from tests.sdk import test_javascript
from tests.support.running import running
from tests.support.stores import Place

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perseid"
SECONDS = 600
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("javascript")]  # they share its packages
SCHEMES = ["http", "https"] if os.environ.get("PERSEID_CLIENTS") == "all" else ["http"]


def tool(name: str, client: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed; the {client} client needs it")
    return path


def run(command: list[str], variables: dict[str, str] | None = None) -> str:
    """Runs a program; what it prints is the text of its failure."""
    done = subprocess.run(
        command,
        env=os.environ | (variables or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def python(_temporary: Path) -> list[str]:
    return [sys.executable, str(HERE / "python" / "program.py")]


def javascript(temporary: Path) -> list[str]:
    """Node looks for packages next to the program, so it is copied there."""
    node = tool("node", "JavaScript")
    packages = test_javascript._packages()
    (temporary / "node_modules").symlink_to(packages, target_is_directory=True)
    return [node, str(shutil.copy(HERE / "javascript" / "program.mjs", temporary))]


def go(temporary: Path) -> list[str]:
    program = str(temporary / "program")
    run([tool("go", "Go"), "build", "-C", str(HERE / "go"), "-o", program, "."])
    return [program]


def java(_temporary: Path) -> list[str]:
    maven, virtual_machine = tool("mvn", "Java"), tool("java", "Java")
    project = HERE / "java"
    sources = [project / "pom.xml", *sorted(project.rglob("*.java"))]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:16]
    place = CACHE / f"java-{digest}"
    if not place.exists():
        compile_java(maven, project, place)
    path = f"{place / 'classes'}{os.pathsep}{(place / 'classpath').read_text().strip()}"
    allowed = "-DCOSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED=true"
    return [virtual_machine, allowed, "-cp", path, "Program"]


def compile_java(maven: str, project: Path, place: Path) -> None:
    """Compiles next to `place` and renames: no other process ever sees half of it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, ignore_cleanup_errors=True) as temporary:
        fresh = Path(temporary) / "fresh"
        goals = ["compile", "dependency:build-classpath"]
        options = [f"-Dout={fresh}", f"-Dmdep.outputFile={fresh / 'classpath'}"]
        run([maven, "-q", "-B", "-f", str(project / "pom.xml"), *goals, *options])
        if not place.exists():
            fresh.rename(place)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("client", [python, javascript, java, go])
def test_program(
    client: Callable[[Path], list[str]], scheme: str, place: Place, tmp_path: Path
) -> None:
    command = client(tmp_path)
    wanted = place.lasting(test_clock=True, relaxed=False, tls=scheme == "https")
    with running(wanted, MovableClock()) as settings:
        variables = {"PERSEID_ENDPOINT": settings.endpoint, "PERSEID_KEY": settings.key}
        if settings.tls:
            certificate = str(settings.data / "certificate.pem")
            variables |= {"PERSEID_CERT": certificate, "NODE_EXTRA_CA_CERTS": certificate}
        printed = run(command, variables)
    assert printed.rstrip().endswith(" passed, 0 failed"), printed
