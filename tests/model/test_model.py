"""The server and the model agree over thousands of random steps."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.model.machine import play
from tests.model.site import Site
from tests.support.stores import Place, Stores

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
    least = STEPS[stores.name]
    with Site(place.lasting()) as site:
        play(site, RULES)
        number = 0
        while site.steps < least:
            number += 1
            play(site, RULES, number)
        assert site.steps >= least
        assert set(site.met) >= MET, site.met
