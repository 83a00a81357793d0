"""What a release consists of: the wheel behaves like the checkout, the sdist holds all of it."""

from __future__ import annotations

import email
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest

from perseid import __version__
from tests.install import smoke

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
SDIST_ROOT = f"perseid-{__version__}"
INFO = f"perseid-{__version__}.dist-info"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist. The build backend is installed: no network is used."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(built / f"perseid-{__version__}-py3-none-any.whl") as file:
        yield file


@pytest.fixture(scope="module")
def unpacked(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    wheel.extractall(folder)
    return folder


def source_files() -> set[str]:
    return {
        file.relative_to(SOURCE).as_posix()
        for file in SOURCE.rglob("*")
        if file.is_file() and file.suffix != ".pyc"
    }


def metadata(wheel: zipfile.ZipFile) -> Message:
    return email.message_from_bytes(wheel.read(f"{INFO}/METADATA"))


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if not name.startswith(INFO)}
    assert names == source_files()
    assert {"perseid/py.typed", "perseid/portal/index.html", "perseid/portal/app.js"} <= names


def test_the_wheel_installs_the_command_the_plugin_and_the_licence(wheel: zipfile.ZipFile) -> None:
    entry_points = wheel.read(f"{INFO}/entry_points.txt").decode()
    assert "[console_scripts]\nperseid = perseid.__main__:main" in entry_points
    assert "[pytest11]\nperseid = perseid.testing.pytest_plugin" in entry_points
    assert wheel.read(f"{INFO}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_the_version_is_that_of_the_package(wheel: zipfile.ZipFile) -> None:
    assert metadata(wheel)["Version"] == __version__
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_start_files_in_yaml_need_no_extra(wheel: zipfile.ZipFile) -> None:
    required = metadata(wheel).get_all("Requires-Dist") or []
    assert [each for each in required if each.startswith("pyyaml")] == ["pyyaml>=6"]
    assert set(metadata(wheel).get_all("Provides-Extra") or []) == {"dev", "postgres"}


def test_the_readme_is_the_description(wheel: zipfile.ZipFile) -> None:
    assert metadata(wheel)["Description-Content-Type"] == "text/markdown"
    text = wheel.read(f"{INFO}/METADATA").partition(b"\n\n")[2]
    assert text == (ROOT / "README.md").read_bytes()


def tracked_files() -> set[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("only a git checkout says which files belong to it")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}


def test_the_sdist_has_every_file_of_the_repository(built: Path) -> None:
    """So that tests, examples and the image can be built from it, too."""
    with tarfile.open(built / f"{SDIST_ROOT}.tar.gz") as file:
        names = {name.removeprefix(f"{SDIST_ROOT}/") for name in file.getnames()}
    assert tracked_files() - names == set(), "add them to the sdist in pyproject.toml"


def test_the_sdist_names_only_what_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert [name for name in included if not (ROOT / name.lstrip("/")).exists()] == []


def test_the_installed_files_serve_like_the_checkout(
    unpacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a start file in YAML, the commands, and every file of the portal."""
    monkeypatch.setenv("PYTHONPATH", str(unpacked))
    command = [sys.executable, "-c", "import perseid; print(perseid.__file__)"]
    where = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path(where.stdout.strip()) == unpacked / "perseid" / "__init__.py"
    smoke.main()
    port = smoke.free_port()
    server = smoke.start(tmp_path, port)
    try:
        for file in sorted((SOURCE / "perseid" / "portal").rglob("*.*")):
            name = file.relative_to(SOURCE / "perseid" / "portal").as_posix()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_explorer/{name}") as answer:
                assert answer.read() == file.read_bytes(), name
        smoke.stop(server)
    finally:
        server.kill()
        server.wait(smoke.SECONDS)


def test_the_smoke_test_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workflows run it on other systems."""
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    smoke.main()
