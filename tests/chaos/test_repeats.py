"""Named exactly-once writes that are run again: no row twice, and none passed over."""

from __future__ import annotations

from typing import Any, Final

import pytest

from spark_kafkawire.clients.writing.modern.transactional.write_state import CommittedBatch
from tests.support.noida import NoidaBroker
from tests.support.short_and_long import short_and_long

from . import repeats
from .operation import EXACT

SEED: Final = 1


@short_and_long("duration_s", short=4.0, long=60.0)
def test_a_name_that_comes_again_is_the_same_rows_or_an_error(duration_s: float) -> None:
    """``make chaos`` goes on with them."""
    came = repeats.run(SEED, duration_s)
    assert came[EXACT] > 0
    assert came[repeats.REFUSED] > 0


def test_other_rows_that_are_passed_over_are_found(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_counts_alone(before: CommittedBatch, now: CommittedBatch) -> Any:
        return None if (before.rows, before.size) == (now.rows, now.size) else "differs"

    monkeypatch.setattr(CommittedBatch, "difference", by_counts_alone)
    faults = [repeats.fault_of(noida, f"{SEED} {number}") for number in range(12)]
    assert any(fault is not None and "no error" in fault for fault in faults)
