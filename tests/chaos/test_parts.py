"""Each part ends in exact rows or in errors of ours, and finds a defect that is planted in the package.
``make chaos`` goes on with them."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from spark_kafkawire.clients.reading.damaged_records import DamagedRecords
from spark_kafkawire.clients.reading.modern.batch_feed import BatchFeed
from spark_kafkawire.clients.writing.modern.transactional.write_state import CommittedBatch
from spark_kafkawire.records import checksum, compiler
from tests.support.short_and_long import short_and_long

from . import decoders
from .__main__ import PARTS
from .decoder_inputs import input_of
from .operation import EXACT, Opened, alone, counted
from .repeats import REFUSED

SEED: Final = 1
#: Without limits for the process, which is that of the tests.
OPENED: Final[dict[str, Opened]] = {**PARTS, "decoders": partial(alone, decoders.operation)}


class Expected(NamedTuple):
    """Counts of operations, of the short test and the long one, and the outcomes that each has on average."""

    counts: tuple[int, int]
    least: dict[str, float]


EXPECTED: Final = {
    "damage": Expected(
        (40, 1000), {EXACT: 0.95, "faults flip": 0.1, "faults break": 0.1, "faults move": 0.1}
    ),
    "fencing": Expected((6, 200), {EXACT: 1, "died": 0.5}),
    "repeats": Expected((1, 15), {EXACT: 1, REFUSED: 1}),
    "missing-files": Expected((40, 2000), {EXACT: 0.1, "DataLossError": 0.05, "CorruptDataError": 0.05}),
    "decoders": Expected(
        (10, 80), {"rows": 125, "CorruptDataError": 125, "LimitError": 0.5, "MarkersDisagree": 0.1}
    ),
}


@short_and_long("length", short=0, long=1)
@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.timeout(1800)
def test_operations_end_in_exact_rows_or_errors_of_ours(name: str, length: int) -> None:
    expected = EXPECTED[name]
    count = expected.counts[length]
    with OPENED[name](SEED, 0) as operation:
        ended = counted(operation, count)
    assert all(ended[outcome] >= least * count for outcome, least in expected.least.items()), ended


def _believe_the_first_fetch(damaged: DamagedRecords, found: Any) -> None:
    list(found)
    damaged.is_expected = True


def _cover_without_a_look(feed: BatchFeed, offset: int) -> None:
    feed.offset = feed._covered = min(offset, feed._range.stop_offset)


def _by_counts_alone(before: CommittedBatch, now: CommittedBatch) -> Any:
    return None if (before.rows, before.size) == (now.rows, now.size) else "differs"


_first_mismatch = checksum.first_mismatch


def _only_interpreted(*arguments: object) -> int | None:
    return None if compiler.loaded() else _first_mismatch(*arguments)  # type: ignore[arg-type]


class Defect(NamedTuple):
    """Defect that takes the place of parts of the package, and the failure that names it."""

    planted: object
    reported: str
    places: tuple[str, ...]


_CLIENTS: Final = "spark_kafkawire.clients"
DEFECTS: Final = {
    "damage": Defect(
        _believe_the_first_fetch,
        "instead of",
        (f"{_CLIENTS}.reading.damaged_records.DamagedRecords.confirm",),
    ),
    "fencing": Defect(
        1,
        "refused, as replication takes",
        (f"{_CLIENTS}.writing.modern.transactional.requests.FENCED_TIMEOUT_MS",),
    ),
    "repeats": Defect(
        _by_counts_alone,
        "no error",
        (f"{_CLIENTS}.writing.modern.transactional.write_state.CommittedBatch.difference",),
    ),
    "missing-files": Defect(
        _cover_without_a_look,
        "lost without an error",
        (f"{_CLIENTS}.reading.modern.batch_feed.BatchFeed._cover_to",),
    ),
    "decoders": Defect(
        _only_interpreted,
        "input .*CRC-32",
        tuple(
            f"spark_kafkawire.records.{each}.decoding.first_mismatch" for each in ("message_set", "legacy")
        ),
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted, reported, places = DEFECTS[name]
    for place in places:
        monkeypatch.setattr(place, planted)
    with OPENED[name](SEED, 0) as operation, pytest.raises(AssertionError, match=reported):
        counted(operation, 60)


def test_an_input_is_the_same_whenever_it_is_drawn() -> None:
    assert [input_of(key) for key in range(200)] == [input_of(key) for key in range(200)]
    assert len({input_of(key).data for key in range(200)}) > 190
