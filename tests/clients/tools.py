"""How the programs of the clients are compiled and run; each function here returns a command."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sdk import test_javascript
from tests.support.kept import CACHE, kept

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SECONDS = 600
SECONDS_TO_COMPILE = 1800
PKG_RESOURCES = "setuptools<81"  # azure-cosmos 3 imports it; Python 3.12 and later lack it


def run(command: list[str], variables: dict[str, str] | None = None, seconds: int = SECONDS) -> str:
    """Runs a program and returns what it prints, without the warnings of its client.

    Both are the text of its failure.
    """
    done = subprocess.run(
        command,
        env=os.environ | (variables or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def tool(name: str, client: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed; the {client} client needs it")
    return path


def python(_temporary: Path) -> list[str]:
    return [sys.executable, str(HERE / "python" / "program.py")]


def javascript(temporary: Path) -> list[str]:
    """Node looks for packages next to the program, so it is copied there."""
    node = tool("node", "JavaScript")
    packages = test_javascript.packages()
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

    def compile_into(place: Path) -> None:
        goals = ["compile", "dependency:build-classpath"]
        options = [f"-Dout={place}", f"-Dmdep.outputFile={place / 'classpath'}"]
        run([maven, "-q", "-B", "-f", str(project / "pom.xml"), *goals, *options])

    place = kept("java", [file.read_bytes() for file in sources], compile_into)
    path = f"{place / 'classes'}{os.pathsep}{(place / 'classpath').read_text().strip()}"
    allowed = "-DCOSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED=true"
    return [virtual_machine, allowed, "-cp", path, "Program"]


def rust(_temporary: Path) -> list[str]:
    return [str(build_rust(HERE / "rust") / "perseid-rust-client")]


def build_rust(project: Path, *options: str) -> Path:
    """The folder of what was compiled. CARGO_TARGET_DIR names another one than the cache."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or CACHE / "rust")
    manifest = str(project / "Cargo.toml")
    cargo = [tool("cargo", "Rust"), "build", "--quiet", "--manifest-path", manifest, *options]
    run([*cargo, "--target-dir", str(target)], seconds=SECONDS_TO_COMPILE)
    return target / "debug"


def dotnet(temporary: Path) -> list[str]:
    """Compiling writes next to the project, so it is copied out of the source tree.

    PERSEID_DOTNET_RUN names another command that compiles and runs the C# files of a folder.
    """
    project = str(shutil.copytree(HERE / "dotnet", temporary / "dotnet"))
    given = os.environ.get("PERSEID_DOTNET_RUN")
    if given:
        return [*shlex.split(given), project]
    return [tool("dotnet", ".NET"), "run", "--project", project]


def dotnet2017(_temporary: Path) -> list[str]:
    """DocumentClient 1.13 was built for .NET Framework, so there is no usual way to run it.

    PERSEID_DOTNET2017_RUN names a command that compiles the C# files of a folder with that client,
    and runs them.
    """
    given = os.environ.get("PERSEID_DOTNET2017_RUN")
    if not given:
        pytest.skip("PERSEID_DOTNET2017_RUN is not set; the client needs .NET Framework")
    return [*shlex.split(given), str(HERE / "dotnet2017")]


def pydocumentdb(_temporary: Path) -> list[str]:
    return _older_python("pydocumentdb_program.py", "pydocumentdb==2.3.5")


def cosmos3(_temporary: Path) -> list[str]:
    return _older_python("cosmos3_program.py", "azure-cosmos==3.2.0", PKG_RESOURCES)


def cosmos30(_temporary: Path) -> list[str]:
    return _older_python("cosmos3_program.py", "azure-cosmos==3.0.2", PKG_RESOURCES)


def celery(_temporary: Path) -> list[str]:
    return _older_python("celery_program.py", "celery==5.5.3", "pydocumentdb==2.3.5")


def _older_python(program: str, *packages: str) -> list[str]:
    """A program that runs in a virtual environment of its own, with other versions than ours."""

    def install(place: Path) -> None:
        run([sys.executable, "-m", "venv", str(place)])
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        run([*pip, "--disable-pip-version-check", *packages])

    sources = [text.encode() for text in (sys.version, *packages)]
    place = kept("python", sources, install)
    return [str(place / "bin" / "python"), "-W", "ignore", str(HERE / "python" / program)]
