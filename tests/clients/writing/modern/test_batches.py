"""Batches in flight: the state of their partition, recovery of those that failed, queues by leader."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pytest

from spark_kafkawire.clients.writing.modern.batch_sender import BatchFailure, LeaderQueues, Verdict
from spark_kafkawire.clients.writing.modern.batches import (
    NO_PRODUCER,
    SEQUENCE_MAX,
    BatchEncoder,
    PartitionProducerState,
    ProducerBatch,
    ProducerId,
)
from spark_kafkawire.clients.writing.modern.producer import take_rows
from spark_kafkawire.clients.writing.rows import Rows
from spark_kafkawire.errors import ConnectionLost, KafkaWireError, ProtocolError
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
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
    state.settle(first)
    state.acknowledge(first, 0)
    for _ in range(3):
        assert state.is_ready
        state.sent(batch())


def test_nothing_new_comes_before_a_repeated_batch_is_settled() -> None:
    state, repeated = PartitionProducerState(IDENTITY, 1, has_acks=True), batch(maybe_persisted=True)
    state.sent(batch())
    assert state.is_ready
    state.sent(repeated)
    assert not state.is_ready
    state.settle(repeated)
    assert state.is_ready


def test_a_producer_without_an_identity_waits_for_nothing() -> None:
    state = PartitionProducerState(NO_PRODUCER, 1)
    state.sent(batch(maybe_persisted=True))
    assert state.is_ready


@pytest.mark.parametrize("offsets", [(0, 2, 4), (4, 2, 0), (2, 0, 4)])
def test_a_receipt_spans_all_batches_in_whatever_order_they_are_proven(offsets: tuple[int, ...]) -> None:
    state = PartitionProducerState(IDENTITY, 1)
    for offset in offsets:
        state.acknowledge(batch(), offset)
    assert (state.start_offset, state.stop_offset, state.message_count) == (0, 6, 6)


def test_a_batch_proven_without_its_offset_leaves_the_span_as_it_is() -> None:
    state = PartitionProducerState(IDENTITY, 1)
    state.acknowledge(batch(), 8)
    state.acknowledge(batch())
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


def test_halves_hold_the_records_of_several_parts_and_without_an_identity_no_sequences() -> None:
    parts = [Records(pa.array([b"0"])), Records(pa.array([b"1", b"2"])), Records(pa.array([b"3", b"4"]))]
    (encoded,) = ENCODER.encode(parts, 1 << 20)
    whole = ProducerBatch(TopicPartition("t", 0), parts, ENCODER, encoded, 0, Deadline.after(60))
    PartitionProducerState(NO_PRODUCER, 1).assign_sequence(whole)
    halves = [[value for part in half.parts for value in part.values.to_pylist()] for half in whole.halves()]
    assert halves == [[b"0", b"1"], [b"2", b"3", b"4"]]
    assert [half.base_sequence for half in whole.halves()] == [-1, -1]


def test_rows_are_taken_from_as_many_parts_as_hold_them() -> None:
    parts = deque(Records(pa.array(values)) for values in ([b"0", b"1"], [b"2"], [b"3", b"4", b"5"]))
    result = [[part.values.to_pylist() for part in take_rows(parts, count)] for count in (1, 3, 0, 2)]
    assert result == [[[b"0"]], [[b"1"], [b"2"], [b"3"]], [], [[b"4", b"5"]]]
    assert not parts


def verdict(
    error: KafkaWireError | int,
    of: ProducerBatch | None = None,
    *,
    is_first: bool = True,
    may_reset_producer: bool = True,
) -> Verdict:
    if isinstance(error, int):
        error = broker_error(error, "Produce to t 0")
    return BatchFailure(of or batch(), error).verdict(
        is_first=is_first, may_reset_producer=may_reset_producer
    )


def test_what_may_pass_is_sent_again_and_what_will_not_is_given_up() -> None:
    """Of all codes, tests/protocol know which are of which kind."""
    for code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.FENCED_LEADER_EPOCH):
        assert verdict(code) is Verdict.RETRY
    for code in (ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED):
        assert verdict(code) is Verdict.FAIL


def test_a_lost_connection_is_tried_again_and_a_broken_protocol_is_not() -> None:
    assert verdict(ConnectionLost("gone")) is Verdict.RETRY
    assert verdict(ProtocolError("nonsense")) is Verdict.FAIL


def test_a_batch_that_is_too_large_is_split_unless_it_is_one_record() -> None:
    code = ErrorCode.MESSAGE_TOO_LARGE
    assert verdict(code) is Verdict.SPLIT
    assert verdict(code, batch(1)) is Verdict.FAIL
    # Where the whole is there after all, its halves are out of order and not appended.
    assert verdict(code, batch(maybe_persisted=True)) is Verdict.SPLIT


def test_a_gap_in_the_sequences_is_for_the_sake_of_an_earlier_batch_or_a_loss() -> None:
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert verdict(code, is_first=False) is Verdict.RETRY
    assert verdict(code) is Verdict.FAIL


def test_the_first_part_of_a_batch_that_may_be_there_is_out_of_order_where_it_is() -> None:
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    sent = dataclasses.replace(batch(8, maybe_persisted=True), producer=ProducerId(7, 0), base_sequence=40)
    first, second = sent.halves()
    assert verdict(code, first) is Verdict.WHOLE
    assert verdict(code, first.halves()[0]) is Verdict.WHOLE
    assert first.halves()[0].whole is sent
    # What comes behind a part that was appended is missed for another reason.
    assert verdict(code, second) is Verdict.FAIL
    assert verdict(code, first, is_first=False) is Verdict.RETRY
    assert verdict(code, batch(8).halves()[0]) is Verdict.FAIL


def test_a_forgotten_producer_starts_again_where_nothing_is_in_doubt() -> None:
    code = ErrorCode.UNKNOWN_PRODUCER_ID
    assert verdict(code) is Verdict.RESET_PRODUCER
    assert verdict(code, is_first=False) is Verdict.RETRY
    assert verdict(code, batch(maybe_persisted=True)) is Verdict.FAIL
    # An identity that no broker has taken yet cannot have been forgotten.
    assert verdict(code, may_reset_producer=False) is Verdict.FAIL


def test_no_repr_shows_a_payload() -> None:
    own = records([b"s3cret"])
    (encoded,) = ENCODER.encode([own], 1 << 20)
    holder = ProducerBatch(TopicPartition("t", 0), [own], ENCODER, encoded, 0, Deadline.after(60))
    for value in (own, Rows(own, "t", keys=own.values), holder, BatchFailure(holder, ConnectionLost("gone"))):
        assert "s3cret" not in repr(value)
        assert own.values.to_pylist()[0].hex() not in repr(value).lower()


A: Final = Broker(0, "a", 1)
B: Final = Broker(1, "b", 1)
NOTHING: Final[Any] = None


def queued(partition: int, index: int) -> ProducerBatch:
    return ProducerBatch(TopicPartition("t", partition), [], NOTHING, NOTHING, index, NOTHING)


class Leaders:
    """Known leaders of partitions, and the number of partitions that were looked up."""

    def __init__(self, **known: Broker) -> None:
        self.known = {int(name[1:]): broker for name, broker in known.items()}
        self.count = 0

    def of(self, partitions: Sequence[TopicPartition]) -> list[Broker | None]:
        self.count += len(partitions)
        return [self.known.get(tp.partition) for tp in partitions]


def taken_of(queues: LeaderQueues, most: int = 1000) -> tuple[Broker | None, list[int]]:
    """Leader and indexes of the next request, with up to so many batches."""
    indexes: list[int] = []

    def take(each: ProducerBatch) -> bool:
        if len(indexes) == most:
            return False
        indexes.append(each.index)
        return True

    leader, head = queues.next()
    queues.take(take)
    assert indexes[0] == head.index
    return leader, indexes


def test_leaders_take_turns_and_batches_keep_their_order() -> None:
    queues = LeaderQueues(Leaders(p0=A, p1=B, p2=A).of)
    queues.put([queued(0, 0), queued(1, 1), queued(2, 2), queued(0, 3), queued(1, 4)])
    assert [taken_of(queues, 2) for _ in range(3)] == [(A, [0, 2]), (B, [1, 4]), (A, [3])]
    assert not queues


def test_batches_of_an_unknown_leader_stay_before_later_ones_of_their_partition() -> None:
    leaders = Leaders(p1=B)
    queues = LeaderQueues(leaders.of)
    queues.put([queued(0, 0), queued(1, 1)])
    leader, head = queues.next()
    assert (leader, head.index) == (None, 0)
    leaders.known[0] = A
    queues.put([queued(0, 2)])
    assert sorted([taken_of(queues), taken_of(queues)], key=str) == [(A, [0, 2]), (B, [1])]


def test_a_leader_that_moves_takes_all_batches_of_its_partition_along_in_order() -> None:
    leaders = Leaders(p0=A)
    queues = LeaderQueues(leaders.of)
    queues.put([queued(0, 0), queued(0, 1)])
    assert taken_of(queues, 1) == (A, [0])
    leaders.known[0] = B
    queues.put([queued(0, 2)])
    queues.regroup()
    assert taken_of(queues) == (B, [1, 2])


def test_all_batches_come_back_in_order_with_parts_of_one_batch() -> None:
    queues = LeaderQueues(Leaders(p0=A, p1=B).of)
    first, second = queued(0, 1), queued(0, 1)
    queues.put([queued(1, 0), first, second, queued(1, 2)])
    queues.next()
    queues.put([queued(0, 3)])
    result = queues.take_all()
    assert [item.index for item in result] == [0, 1, 1, 2, 3]
    assert result[1] is first
    assert result[2] is second
    assert not queues


def test_the_cost_of_a_request_does_not_grow_with_other_leaders() -> None:
    brokers = [Broker(number, "h", number) for number in range(500)]
    leaders = Leaders(**{f"p{number}": broker for number, broker in enumerate(brokers)})
    queues = LeaderQueues(leaders.of)
    queues.put(queued(number % 500, number) for number in range(2000))
    offered = 0

    def take(_: ProducerBatch) -> bool:
        nonlocal offered
        offered += 1
        return True

    while queues:
        queues.next()
        queues.take(take)
    assert offered == leaders.count == 2000
