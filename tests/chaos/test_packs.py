"""Packed reads while something happens to some partitions: exact rows or one of our errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from spark_kafkawire.clients.reading.pack import Pack
from tests.support.short_and_long import short_and_long

from . import packs
from .operation import EXACT

SEED: Final = 1


@short_and_long("duration_s", short=8.0, long=60.0)
def test_packed_reads_end_in_exact_rows_or_errors_of_ours(duration_s: float) -> None:
    """``make chaos`` goes on with them."""
    came = packs.run(SEED, duration_s)
    assert came[EXACT] > 0
    assert came[packs.REFUSED] > 0


def test_a_row_that_a_pack_drops_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = Pack.columns

    def without_one(self: Pack) -> Iterator[Any]:
        found = columns(self)
        next(found)
        yield from found

    monkeypatch.setattr(Pack, "columns", without_one)
    faults = [packs.fault_of(f"{SEED} {number}") for number in range(8)]
    assert any(fault is not None and "lacks" in fault for fault in faults)
