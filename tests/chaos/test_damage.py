"""Reads of damaged logs whose responses are damaged in transit: exact rows. Planted defects are found."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, Final

import pytest

from spark_kafkawire.clients.reading.damaged_records import DamagedRecords
from tests.support.short_and_long import short_and_long

from .damage import operation
from .operation import EXACT

SEED: Final = 1


@short_and_long("operations", short=40, long=1000)
@pytest.mark.timeout(1800)
def test_only_damage_of_the_log_becomes_a_bad_record(operations: int) -> None:
    ended = sum((operation(SEED, number) for number in range(operations)), start=Counter[str]())
    assert ended[EXACT] > 0.95 * operations, ended
    assert ended[EXACT] + ended["SuspectedDamage"] + ended["CorruptDataError"] == operations, ended
    assert all(ended[f"faults {kind}"] > 0 for kind in ("flip", "break", "move")), ended


def test_a_reader_that_believes_the_first_fetch_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def believe(damaged: DamagedRecords, found: Any) -> None:
        list(found)
        damaged.is_expected = True

    monkeypatch.setattr(DamagedRecords, "confirm", believe)
    with pytest.raises(AssertionError, match="instead of"):
        list(map(partial(operation, SEED), range(60)))
