"""How the complete programs on the pages of the clients are compiled and run.

They have the address of a server in them, as users write it; a copy gets that of a running one.
That of Python is run with its page.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.clients import tools

SHOWN = "http://127.0.0.1:8081/"


def place(file: Path, endpoint: str) -> str:
    """Changes the address in a copied program; returns the path of the copy."""
    text = file.read_text()
    assert SHOWN in text
    file.write_text(text.replace(SHOWN, endpoint))
    return str(file)


def javascript(temporary: Path, endpoint: str) -> list[str]:
    node, _ = tools.javascript(temporary)
    program = shutil.copy(tools.HERE / "javascript" / "first.mjs", temporary)
    return [node, place(Path(program), endpoint)]


def go(temporary: Path, endpoint: str) -> list[str]:
    project = shutil.copytree(tools.HERE / "go", temporary / "go")
    place(project / "first" / "main.go", endpoint)
    program = str(temporary / "first")
    tools.run([tools.tool("go", "Go"), "build", "-C", str(project), "-o", program, "./first"])
    return [program]


def java(temporary: Path, endpoint: str) -> list[str]:
    """Compiled when it starts, with the libraries of the other program, and without its options."""
    virtual_machine, *_, path, _ = tools.java(temporary)
    source = tools.HERE / "java" / "src" / "main" / "java" / "FirstItem.java"
    program = shutil.copy(source, temporary)
    libraries = path.partition(os.pathsep)[2]
    return [virtual_machine, "-cp", libraries, place(Path(program), endpoint)]


def rust(temporary: Path, endpoint: str) -> list[str]:
    project = shutil.copytree(
        tools.HERE / "rust", temporary / "rust", ignore=shutil.ignore_patterns("target")
    )
    place(project / "examples" / "first_item.rs", endpoint)
    return [str(tools.build_rust(project, "--example", "first_item") / "examples" / "first_item")]


def dotnet(temporary: Path, endpoint: str) -> list[str]:
    command = tools.dotnet(temporary)  # the folder of the project is its last argument
    project = Path(command[-1])
    first = project / "first"
    place(first / "Program.cs", endpoint)
    shutil.copy(project / "Perseid.Client.csproj", first)
    return [*command[:-1], str(first)]
