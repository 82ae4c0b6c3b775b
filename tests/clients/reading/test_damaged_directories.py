"""Reads of damaged segment files: each intact batch comes, and no row that the log never held."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from spark_kafkawire.errors import CorruptDataError, LimitError
from spark_kafkawire.options import BadRecords
from tests.clients.reading.damaged_directories import bases, read, written
from tests.records.damaged_logs import (
    KINDS,
    V07,
    DamagedLog,
    damaged_log,
    may_be_lost,
    may_show_content,
)
from tests.records.damaged_logs import is_free as _is_free
from tests.support.failing_case import failing_case
from tests.support.short_and_long import short_and_long


@short_and_long("count", short=16, long=3_600)
@pytest.mark.parametrize(("form", "codec", "is_mixed"), KINDS)
def test_corruptions_cost_their_batches(
    form: int, codec: str, is_mixed: bool, count: int, tmp_path: Path
) -> None:
    """The long form has 100,000 corruptions of directories."""
    for seed in range(count):
        with failing_case(f"damaged_log({seed}, {form}, {codec!r}, is_mixed={is_mixed})"):
            _check(damaged_log(seed, form, codec, is_mixed=is_mixed), tmp_path, seed)


def _check(log: DamagedLog, folder: Path, seed: int) -> None:
    files = written(log, folder, is_indexed=seed % 2 == 0)
    window_bytes = (150, 1000, 8 << 20)[seed % 3]
    try:
        rows, places = read(log, files, BadRecords.NULL, window_bytes=window_bytes)
    except LimitError:
        assert log.form == V07
        assert _is_free(log)
        return
    except CorruptDataError as error:
        # The last message has the offset of a damaged one before it: planning sees an earlier end of the log.
        reason = str(error)
        assert "the end of the log when the read was planned" in reason
        assert _is_free(log)
        assert log.is_damaged(len(log.entries) - 1)
        return
    finally:
        failed = _error_of(log, folder, seed, window_bytes)
        for path in folder.iterdir():
            path.unlink()
    assert all(left < right for left, right in pairwise((offset, index) for offset, index, _ in rows))
    assert all(start < stop for start, stop in places)
    assert all(left[1] <= right[0] for left, right in pairwise(places))
    came = set(rows)
    held = {row for entry in log.entries for row in entry.rows}
    if not _is_free(log) and not may_show_content(log):
        assert held >= came, "a row came that the log never held"
        for offset, _, _ in held - came:
            assert any(start <= offset < stop for start, stop in places)
    for index, entry in enumerate(log.entries):
        if not log.is_damaged(index) and not came.issuperset(entry.rows):
            assert may_be_lost(log, index), f"entry {index} was lost, and no byte of it was flipped"
    damaged = [i for i in range(len(log.entries)) if log.is_damaged(i)]
    # The messages of a damaged batch may come: gzip can store them as they are, and each has a checksum.
    lost = [i for i in damaged if not came.issuperset(log.entries[i].rows)]
    if lost and not _is_free(log):
        assert places
        assert places[0][0] == bases(log)[lost[0]] or not came.isdisjoint(log.entries[lost[0]].rows)
    if damaged and not _is_free(log):
        assert failed is not None
        segment = max(i for i in range(0, damaged[0] + 1, 7))
        pos = log.positions[damaged[0]] - log.positions[segment]
        assert f"it begins at byte {pos} of the file" in failed, failed
        assert f"{bases(log)[segment]:020d}." in failed


def _error_of(log: DamagedLog, folder: Path, seed: int, window_bytes: int) -> str | None:
    files = written(log, folder, is_indexed=seed % 2 == 0)
    try:
        read(log, files, BadRecords.FAIL, window_bytes=window_bytes)
    except (CorruptDataError, LimitError) as error:
        return str(error)
    return None
