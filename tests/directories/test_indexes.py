"""Indexes of segments, as brokers of Apache Kafka wrote them: closed in order, and killed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spark_kafkawire.directories.indexes import (
    AbortedTransaction,
    aborted_transactions,
    offset_index,
    time_index,
)
from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.records.log_index import index_batches
from spark_kafkawire.records.log_kernels import (
    BASE_OFFSET,
    MAX_TIMESTAMP,
    NEXT_OFFSET,
    POS,
)
from tests.support.log_folders import ABORTED, KILLED, KILLED_4, STOPPED

DIRECTORIES = pytest.mark.parametrize("directory", [STOPPED, KILLED, KILLED_4], ids=lambda path: path.name)


def segments(directory: Path) -> list[Path]:
    return sorted((directory / "events-0").glob("*.log"))


@DIRECTORIES
def test_an_offset_index_finds_the_batch_of_each_offset(directory: Path) -> None:
    for log in segments(directory):
        batches = index_batches(log.read_bytes())
        index = offset_index(log.with_suffix(".index").read_bytes(), int(log.stem))
        assert index.count > 0
        assert set(index.positions.tolist()) <= set(batches.column(POS).tolist())
        for offset in range(int(log.stem), int(batches.next_offset or 0)):
            pos = index.position_of(offset)
            [row] = np.flatnonzero(batches.column(POS) == pos)
            assert batches.table[row, BASE_OFFSET] <= offset
        assert index.last_position(log.stat().st_size) == index.positions[-1]


@DIRECTORIES
def test_a_time_index_names_an_offset_before_the_records_of_a_timestamp(
    directory: Path,
) -> None:
    for log in segments(directory):
        batches = index_batches(log.read_bytes())
        index = time_index(log.with_suffix(".timeindex").read_bytes(), int(log.stem))
        assert index.count > 0
        for time_ms, offset in zip(index.times_ms.tolist(), index.offsets.tolist(), strict=True):
            before = batches.column(NEXT_OFFSET) <= offset
            assert (batches.column(MAX_TIMESTAMP)[before] <= time_ms).all()


def test_indexes_of_a_killed_broker_end_in_zeros() -> None:
    stopped = (STOPPED / "events-0" / "00000000000000000310.index").read_bytes()
    killed = (KILLED / "events-0" / "00000000000000000310.index").read_bytes()
    assert offset_index(stopped, 310).is_trimmed
    assert killed.endswith(bytes(100))
    cut = offset_index(killed, 310)
    assert not cut.is_trimmed
    assert cut.offsets.tolist()[: len(stopped) // 8] == offset_index(stopped, 310).offsets.tolist()
    times = (KILLED / "events-0" / "00000000000000000310.timeindex").read_bytes()
    assert not time_index(times, 310).is_trimmed


def test_an_index_of_nothing_is_empty() -> None:
    for data in (b"", bytes(7), bytes(1024)):
        assert offset_index(data, 5).count == 0
        assert offset_index(data, 5).position_of(99) == 0
        assert time_index(data, 5).count == 0
        assert time_index(data, 5).offset_before(99) is None


def test_an_index_of_aborted_transactions() -> None:
    data = (STOPPED / "events-0" / "00000000000000000310.txnindex").read_bytes()
    [found] = aborted_transactions(data)
    first, last = ABORTED
    assert (found.first_offset, found.last_offset) == (first, last + 1)
    assert found.producer_id >= 0
    assert aborted_transactions(data[:-1]) == ()
    assert aborted_transactions(b"") == ()


@pytest.mark.parametrize(
    "numbers",
    [(1, 1, 0, 5, 6), (0, -1, 0, 5, 6), (0, 1, 6, 5, 6), (0, 1, -1, 5, 6)],
    ids=str,
)
def test_an_entry_that_cannot_be_is_damage(numbers: tuple[int, ...]) -> None:
    version, *others = numbers
    data = version.to_bytes(2, "big") + b"".join(each.to_bytes(8, "big", signed=True) for each in others)
    with pytest.raises(CorruptDataError):
        aborted_transactions(data)


def test_entries_have_names() -> None:
    data = b"".join([(0).to_bytes(2, "big"), *(each.to_bytes(8, "big") for each in (7, 10, 20, 15))])
    assert aborted_transactions(data) == (AbortedTransaction(7, 10, 20, 15),)
