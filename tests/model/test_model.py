"""The server and the model agree over thousands of random steps."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.model.machine import play
from tests.model.site import Site
from tests.support.stores import Place, Stores

ROUNDS = 12  # at most, if some answers were not met by then
STEPS = {"sqlite": 2000, "postgres": 1000, "citus": 1000}
# Answers that random steps could miss unnoticed.
MET = {
    *("patch 200", "patch 400", "patch 404", "patch 412"),
    *("batch 200", "batch 207", "clear 200"),
}
RULES = settings(
    max_examples=20,
    stateful_step_count=60,
    deadline=None,
    report_multiple_bugs=False,
    derandomize=True,  # `make soak` looks for news, this looks for what broke
    suppress_health_check=list(HealthCheck),
)


def test_the_server_does_what_the_model_does(stores: Stores, place: Place) -> None:
    """Each round has a number as its seed: the examples do not depend on the source text."""
    least = STEPS[stores.name]
    with Site(place.lasting()) as site:
        number = 0
        while site.steps < least or (number < ROUNDS and not set(site.met) >= MET):
            play(site, RULES, number)
            number += 1
        assert site.steps >= least
        assert set(site.met) >= MET, site.met
