"""What tests of the official Python clients share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from azure.cosmos.exceptions import CosmosHttpResponseError


@contextmanager
def refused(
    status: int, sub_status: int | None = None, text: str = ""
) -> Iterator[pytest.ExceptionInfo[CosmosHttpResponseError]]:
    """The block must end with this answer; without a sub-status none is checked."""
    with pytest.raises(CosmosHttpResponseError) as caught:
        yield caught
    assert text in str(caught.value)
    assert caught.value.status_code == status, str(caught.value)
    if sub_status is not None:
        assert (caught.value.sub_status or 0) == sub_status, str(caught.value)
