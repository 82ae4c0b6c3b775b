"""The state of a partition in a task while batches of it are in flight."""

from __future__ import annotations

from collections import deque
from typing import Final

import pyarrow as pa
import pytest

from spark_kafkawire.clients.writing.modern.batches import (
    NO_PRODUCER,
    SEQUENCE_MAX,
    BatchEncoder,
    PartitionProducerState,
    ProducerBatch,
    ProducerId,
)
from spark_kafkawire.clients.writing.modern.producer import taken
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.records.rows import Records
from tests.support.producing import records

ENCODER: Final = BatchEncoder(2, "none", None, 1 << 20)
IDENTITY: Final = ProducerId(7, 0)


def batch(count: int = 2, *, maybe_persisted: bool = False) -> ProducerBatch:
    own = records([b"%d" % number for number in range(count)])
    (encoded,) = ENCODER.encode([own], 1 << 20)
    return ProducerBatch(
        TopicPartition("t", 0),
        [own],
        ENCODER,
        encoded,
        0,
        Deadline.after(60),
        maybe_persisted=maybe_persisted,
    )


def test_several_batches_may_be_in_flight_once_the_first_is_proven() -> None:
    state, first = PartitionProducerState(IDENTITY, 1), batch()
    state.sent(first)
    assert not state.is_ready
    state.settled(first)
    state.acked(first, 0)
    for _ in range(3):
        assert state.is_ready
        state.sent(batch())


def test_nothing_new_comes_before_a_repeated_batch_is_settled() -> None:
    state, repeated = PartitionProducerState(IDENTITY, 1, has_acks=True), batch(maybe_persisted=True)
    state.sent(batch())
    assert state.is_ready
    state.sent(repeated)
    assert not state.is_ready
    state.settled(repeated)
    assert state.is_ready


def test_a_producer_without_an_identity_waits_for_nothing() -> None:
    state = PartitionProducerState(NO_PRODUCER, 1)
    state.sent(batch(maybe_persisted=True))
    assert state.is_ready


@pytest.mark.parametrize("offsets", [(0, 2, 4), (4, 2, 0), (2, 0, 4)])
def test_a_receipt_spans_all_batches_in_whatever_order_they_are_proven(offsets: tuple[int, ...]) -> None:
    state = PartitionProducerState(IDENTITY, 1)
    for offset in offsets:
        state.acked(batch(), offset)
    assert (state.start_offset, state.stop_offset, state.message_count) == (0, 6, 6)


def test_a_batch_proven_without_its_offset_leaves_the_span_as_it_is() -> None:
    state = PartitionProducerState(IDENTITY, 1)
    state.acked(batch(), 8)
    state.acked(batch())
    assert (state.start_offset, state.stop_offset, state.message_count) == (8, 10, 4)


def test_sequences_wrap_as_javas_do() -> None:
    state = PartitionProducerState(IDENTITY, 1, next_sequence=SEQUENCE_MAX - 1)
    first, second = batch(3), batch(3)
    state.assign_sequence(first)
    state.assign_sequence(second)
    assert (first.base_sequence, second.base_sequence, state.next_sequence) == (SEQUENCE_MAX - 1, 1, 4)


@pytest.mark.parametrize(("sequence", "sequences"), [(10, (10, 12)), (SEQUENCE_MAX, (SEQUENCE_MAX, 1))])
def test_halves_have_the_sequences_of_the_whole(sequence: int, sequences: tuple[int, int]) -> None:
    state, whole = PartitionProducerState(IDENTITY, 1, next_sequence=sequence), batch(5)
    state.assign_sequence(whole)
    halves = whole.halves()
    assert tuple(half.base_sequence for half in halves) == sequences
    assert [half.count for half in halves] == [2, 3]
    assert {half.producer for half in halves} == {IDENTITY}


def test_halves_of_a_producer_without_an_identity_have_no_sequences() -> None:
    state, whole = PartitionProducerState(NO_PRODUCER, 1), batch(4)
    state.assign_sequence(whole)
    assert [half.base_sequence for half in whole.halves()] == [-1, -1]


def test_halves_of_a_batch_of_several_parts_hold_its_records() -> None:
    parts = [Records(pa.array([b"0"])), Records(pa.array([b"1", b"2"])), Records(pa.array([b"3", b"4"]))]
    (encoded,) = ENCODER.encode(parts, 1 << 20)
    whole = ProducerBatch(TopicPartition("t", 0), parts, ENCODER, encoded, 0, Deadline.after(60))
    halves = [[value for part in half.parts for value in part.values.to_pylist()] for half in whole.halves()]
    assert halves == [[b"0", b"1"], [b"2", b"3", b"4"]]


def test_rows_are_taken_from_as_many_parts_as_hold_them() -> None:
    parts = deque(Records(pa.array(values)) for values in ([b"0", b"1"], [b"2"], [b"3", b"4", b"5"]))
    found = [[part.values.to_pylist() for part in taken(parts, count)] for count in (1, 3, 0, 2)]
    assert found == [[[b"0"]], [[b"1"], [b"2"], [b"3"]], [], [[b"4", b"5"]]]
    assert not parts
