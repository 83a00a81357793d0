"""Workflows and issue templates: they can be read, and say what they should."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
TEMPLATES = ("bug", "feature")
SYSTEMS = {"linux": "ubuntu-latest", "macos": "macos-latest", "windows": "windows-latest"}
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]
# Which projects a workflow may load code from.
TRUSTED = ("actions/", "pypa/", "./")


def load(path: Path) -> dict[Any, Any]:
    content = yaml.safe_load(path.read_text())
    assert isinstance(content, dict)
    return content


def steps_of(job: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of a job, or the workflow that it calls."""
    steps: list[dict[str, Any]] = job.get("steps") or [{"uses": job["uses"]}]
    return steps


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_says_what_was_checked_and_what_was_never_run(path: Path) -> None:
    comment = " ".join(re.findall(r"^# ?(.*)$", path.read_text(), re.MULTILINE))
    assert "Checked on" in comment
    assert "never run on runners" in comment


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read_and_loads_few_actions(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        for step in steps_of(job):
            if (action := step.get("uses")) is not None:
                assert action.startswith(TRUSTED), action
                assert action.startswith("./") or "@" in action, action
        assert "uses" in job or job["timeout-minutes"]


def test_each_system_is_tested_with_each_version() -> None:
    jobs = load(GITHUB / "workflows" / "test.yml")["jobs"]
    for name, runner in SYSTEMS.items():
        assert jobs[name]["runs-on"] == runner
        assert jobs[name]["strategy"]["matrix"]["python"] == VERSIONS
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={VERSIONS[0]}"


def test_commands_of_the_workflows_exist() -> None:
    texts = [step.get("run", "") for path in WORKFLOWS for job in load(path)["jobs"].values()
             for step in steps_of(job)]  # fmt: skip
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for name in re.findall(r"\bmake ([a-z]+)", "\n".join(texts)):
        assert name in targets
    for name in re.findall(r"python\"? (tests/\S+\.py)", "\n".join(texts)):
        assert (ROOT / name).exists()


def test_only_the_last_job_of_a_release_can_publish() -> None:
    jobs = load(GITHUB / "workflows" / "release.yml")["jobs"]
    publish = jobs.pop("publish")
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"] == "pypi"
    assert sorted(publish["needs"]) == sorted(jobs)
    assert not any("permissions" in job for job in jobs.values())
    assert publish["steps"][-1]["with"] == {"attestations": True}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_report_asks_for_what_an_answer_needs(name: str) -> None:
    template = load(GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml")
    assert {"name", "description", "body"} <= template.keys()
    fields = {field["id"]: field for field in template["body"] if field["type"] != "markdown"}
    assert {"version", "sdk", "request", "response"} <= fields.keys()
    for field in fields.values():
        assert field["type"] in ("input", "textarea")
        assert field["attributes"]["label"]
