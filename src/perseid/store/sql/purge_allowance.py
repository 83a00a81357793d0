"""How many purge candidates an allowance of request units covers."""

from __future__ import annotations

from collections.abc import Iterable

from perseid import charges
from perseid.store.types import PurgedItem, PurgeResult


def within_allowance(candidates: list[PurgedItem], allowance: int | None) -> PurgeResult:
    """The candidates from the front that the allowance, in hundredths of a request unit, covers."""
    if allowance is None:
        return PurgeResult(candidates, len(candidates), None)
    item_charges = (
        charges.hundredths(charges.delete(candidate.size, candidate.terms))
        for candidate in candidates
    )
    count, next_charge = affordable(item_charges, allowance)
    return PurgeResult(candidates[:count], len(candidates), next_charge)


def affordable(item_charges: Iterable[int], allowance: int) -> tuple[int, int | None]:
    """How many charges from the front the allowance covers, and the first one it does not.

    A later, cheaper item never overtakes one that is too expensive: items are purged in the order
    of their expiry, and the payer saves until the next charge is covered.
    """
    count = 0
    for charge in item_charges:
        if charge > allowance:
            return count, charge
        allowance -= charge
        count += 1
    return count, None
