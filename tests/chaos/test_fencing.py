"""Writes that die, and the next run on a cluster that replicates: no fence is refused. A planted defect is
found."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final

import pytest

from spark_kafkawire.clients.writing.modern.transactional import requests
from tests.support.noida import NoidaBroker
from tests.support.short_and_long import short_and_long

from .fencing import operation
from .operation import EXACT

SEED: Final = 1


@short_and_long("operations", short=6, long=200)
@pytest.mark.timeout(1800)
def test_the_next_run_fences_what_a_dead_one_left(noida: NoidaBroker, operations: int) -> None:
    ended = sum((operation(noida, SEED, number) for number in range(operations)), start=Counter[str]())
    assert ended[EXACT] == operations
    assert ended["died"] > operations / 2


def test_a_fence_that_has_no_time_for_replication_is_found(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "FENCED_TIMEOUT_MS", 1)
    with pytest.raises(AssertionError, match="refused, as replication takes"):
        list(map(partial(operation, noida, SEED), range(60)))
