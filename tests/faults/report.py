"""The table of `make faults`: one row for each fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.faults.world import World

COUNTED: Final = ("lost", "doubled", "returned", "expired seen", "wrong content")


@dataclass(frozen=True)
class Result:
    """What one fault did."""

    name: str
    description: str
    rounds: int
    acknowledged: int
    counts: dict[str, int]  # findings and bad answers
    examples: dict[str, str]
    statuses: dict[str, int]
    seconds: float

    @property
    def has_failed(self) -> bool:
        return any(self.counts.values())


def result_of(name: str, description: str, world: World, seconds: float) -> Result:
    return Result(
        name,
        description,
        world.rounds,
        world.ledger.acknowledged,
        dict(world.findings.counts + world.tally.failures),
        world.findings.examples | world.tally.examples,
        dict(world.tally.statuses),
        seconds,
    )


def header() -> str:
    counted = " ".join(name.rjust(13) for name in COUNTED)
    return f"{'fault':18} {'rounds':>6} {'acknowledged':>12} {counted}  verdict"


def row(result: Result) -> str:
    counted = " ".join(f"{result.counts.get(name, 0):13}" for name in COUNTED)
    others = {name: count for name, count in result.counts.items() if name not in COUNTED}
    verdict = "passed"
    if result.has_failed:
        verdict = "FAILED" + "".join(f"; {count}x {name}" for name, count in others.items())
    return f"{result.name:18} {result.rounds:6} {result.acknowledged:12} {counted}  {verdict}"


def details(result: Result) -> list[str]:
    statuses = ", ".join(f"{name}: {count}" for name, count in sorted(result.statuses.items()))
    lines = [
        f"    {result.description}; {result.seconds:.0f} s",
        f"    answers {statuses or 'none'}",
    ]
    return lines + [f"    {finding}: {text}" for finding, text in result.examples.items()]


def verdict(results: Sequence[Result]) -> str:
    failed = [result.name for result in results if result.has_failed]
    return f"faults: FAILED ({', '.join(failed)})" if failed else "faults: passed"
