"""Tests of the judges: defects that are planted in the package or in its output are found and named."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import pytest

from spark_kafkawire.errors import ConnectionLost, OptionError
from spark_kafkawire.protocol.modern import FETCH, METADATA
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

from . import reading, topics, v07, writing
from .frames import Spoken
from .ledger import Found, Ledger, Promise
from .operation import SECRET, attempt
from .operations import Operations, Target, version_fault
from .proxy import Upstream
from .truth import Row, difference

ROWS: Final = [Row("t", None, 0, offset, 0, b"k", b"v", (), 1_000, 0) for offset in range(5)]
CONTENTS: Final = ["a", "b", "c"]


def test_rows_in_any_order_are_the_same_rows() -> None:
    assert difference(ROWS[::-1], ROWS) is None


@pytest.mark.parametrize(
    ("found", "reported"),
    [
        (ROWS[1:], "1 missing"),
        ([*ROWS, ROWS[2]], "1 doubled"),
        ([*ROWS, ROWS[2]._replace(offset=7)], "1 foreign"),
        ([ROWS[0]._replace(key=None), *ROWS[1:]], "1 changed"),
        ([ROWS[0]._replace(headers=(("h", b""),)), *ROWS[1:]], "1 changed"),
        ([ROWS[0]._replace(timestamp_ms=None), *ROWS[1:]], "1 changed"),
        ([ROWS[0]._replace(timestamp_type=1), *ROWS[1:]], "1 changed"),
    ],
)
def test_rows_that_differ_are_told(found: list[Row], reported: str) -> None:
    assert reported in str(difference(found, ROWS))


def judged(promise: Promise, *numbers: int, log: str = "0", content: str | None = None) -> str | None:
    """Verdict on a write of ``CONTENTS`` of which these rows were found, in that order."""
    ledger: Ledger[str] = Ledger()
    ledger.begin(7, CONTENTS, ["0", None, None])
    ledger.end(7, promise)
    return ledger.judge([Found(log, 7, number, content or CONTENTS[number]) for number in numbers], 7)


@pytest.mark.parametrize(
    ("promise", "numbers", "reported"),
    [
        (Promise.ONCE, (0, 1, 2), None),
        (Promise.AT_MOST_ONCE, (), None),
        (Promise.AT_MOST_ONCE, (0, 2), None),
        (Promise.AT_LEAST_ONCE, (0, 1, 2, 1), None),
        (Promise.ANY, (2, 2, 0), None),
        (Promise.ONCE, (0, 2), "1 are missing"),
        (Promise.ONCE, (0, 1, 1, 2), "1 are doubled"),
        (Promise.ONCE, (0, 2, 1), "out of order"),
        (Promise.AT_LEAST_ONCE, (0, 0, 1), "1 are missing"),
        (Promise.AT_MOST_ONCE, (0, 0), "1 are doubled"),
        (Promise.AT_MOST_ONCE, (1, 0), "out of order"),
    ],
)
def test_a_write_that_breaks_its_promise_is_told(
    promise: Promise, numbers: tuple[int, ...], reported: str | None
) -> None:
    found = judged(promise, *numbers)
    assert found is None if reported is None else reported in str(found)


def test_rows_in_another_log_with_another_content_or_of_nobody_are_told() -> None:
    assert "is in 1 instead of 0" in str(judged(Promise.ANY, 0, log="1"))
    assert "has changed" in str(judged(Promise.ANY, 1, content="x"))
    ledger: Ledger[str] = Ledger()
    assert "foreign" in str(ledger.judge([Found("0", 8, 0, "a")]))


def test_a_row_that_comes_late_doubles_the_write_that_it_is_of() -> None:
    ledger: Ledger[str] = Ledger()
    for operation in (1, 2):
        ledger.begin(operation, CONTENTS[:1], [None])
        ledger.end(operation, Promise.ONCE)
        assert ledger.judge([Found("0", operation, 0, "a")], operation) is None
    assert "operation 1, exactly once, in order: of 1 rows 0 are missing [], 1 are doubled" in str(
        ledger.judge([Found("0", 1, 0, "a")])
    )


class Raw(ConnectionLost):
    """An error that does not look after its message, as all of ours do."""

    def __init__(self, message: str) -> None:
        super().__init__("")
        self._message = message

    def __str__(self) -> str:
        return self._message


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (Raw("two\nlines"), "not one printable line"),
        (Raw("\x1b[31m"), "not one printable line"),
        (Raw("long " * 10_000), "50000 characters"),
        (Raw(f"password {SECRET}"), "shows a secret"),
        (OptionError("option x"), "blames what is right"),
    ],
)
def test_errors_that_nobody_should_see_are_told(error: Exception, reported: str) -> None:
    with pytest.raises(AssertionError, match=reported):
        attempt(partial(_raise, error))


def test_an_error_that_may_be_shown_is_a_result() -> None:
    error = ConnectionLost("127.0.0.1:9092: the peer closed")
    assert attempt(partial(_raise, error)) is error


def _raise(error: Exception) -> None:
    raise error


def test_older_versions_than_without_faults_are_told() -> None:
    lowest = {FETCH.key: 12, METADATA.key: 9}
    assert version_fault(Spoken({(FETCH.key, 12): 3, (METADATA.key, 12): 1}), lowest) is None
    assert "Fetch in version 0 instead of 12" in str(version_fault(Spoken({(FETCH.key, 0): 1}), lowest))


def test_messages_of_0_7_are_read_as_they_were_made() -> None:
    draw = random.Random(1)
    made = [v07._plain(draw), v07._nested(draw), v07._snappy(draw)]
    found = [[*v07.values(body)] for _, _, body in v07.messages(b"".join(made))]
    assert len(found) >= 3
    damaged = bytearray(made[0])
    damaged[-1 if len(damaged) > 10 else 6] ^= 1
    with pytest.raises(AssertionError, match="CRC"):
        [[*v07.values(body)] for _, _, body in v07.messages(bytes(damaged))]


@pytest.fixture
def operations(noida: NoidaBroker) -> Operations:
    """Reads and writes of a real broker, that has two small topics."""
    read, written = noida.create_topic(2), noida.create_topic(writing.PARTITION_COUNT)
    records = [Record(b"%d" % number, b"k", timestamp_ms=10**12 + number) for number in range(50)]
    librdkafka.produce(noida.bootstrap_servers, read, records)
    truth = topics.learned(noida.bootstrap_servers, {read: records})
    upstreams = (Upstream("broker", noida.port, "kafka"),)
    return Operations(Target("noida-db", upstreams, truth, (written,), noida.bootstrap_servers), written, 1)


def test_an_honest_reader_and_an_honest_writer_pass(operations: Operations) -> None:
    operations.learn_versions(range(12))
    operations.close()


def test_a_reader_that_drops_a_row_is_caught(operations: Operations, monkeypatch: pytest.MonkeyPatch) -> None:
    read = reading.read
    monkeypatch.setattr(reading, "read", lambda options: read(options)[1:])
    with pytest.raises(AssertionError, match="1 missing"):
        operations.learn_versions(range(12))


def test_a_writer_that_doubles_rows_is_caught(
    operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = writing.write

    def twice(options: reading.Options, batches: Sequence[Any]) -> int:
        write(options, batches)
        return write(options, batches)

    monkeypatch.setattr(writing, "write", twice)
    with pytest.raises(AssertionError, match="are doubled"):
        operations.learn_versions(range(2, 30, 3))


def test_a_seed_does_the_same_again(operations: Operations) -> None:
    truth = operations._target.truth
    first, again = (reading.draw(operations.chance(11), truth, {}, is_07=False) for _ in range(2))
    assert first == again
    written, once_more = (writing.draw(operations.chance(11), "t", 11, {}) for _ in range(2))
    assert written == once_more
    assert written != writing.draw(operations.chance(14), "t", 11, {})
