"""Recovery of a batch that failed."""

from __future__ import annotations

import dataclasses

from spark_kafkawire.clients.writing.modern.batch_failures import BatchFailure, Verdict
from spark_kafkawire.clients.writing.modern.batches import (
    NO_PRODUCER,
    BatchEncoder,
    PartitionProducerState,
    ProducerBatch,
    ProducerId,
)
from spark_kafkawire.clients.writing.rows import Rows
from spark_kafkawire.errors import ConnectionLost, KafkaWireError, ProtocolError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from tests.support.cases import for_each
from tests.support.producing import records

ENCODER = BatchEncoder(2, "none", None, 1 << 20)
RETRIED = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
)
FATAL = (
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.PRODUCER_FENCED,
)


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


@for_each("code", RETRIED)
def test_what_may_pass_is_sent_again(code: int) -> None:
    assert verdict(code) is Verdict.RETRY


@for_each("code", FATAL)
def test_what_will_not_pass_is_given_up(code: int) -> None:
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


def test_a_forgotten_producer_begins_anew_where_nothing_is_in_doubt() -> None:
    code = ErrorCode.UNKNOWN_PRODUCER_ID
    assert verdict(code) is Verdict.RESET_PRODUCER
    assert verdict(code, is_first=False) is Verdict.RETRY
    assert verdict(code, batch(maybe_persisted=True)) is Verdict.FAIL
    # An identity that no broker has taken yet cannot have been forgotten.
    assert verdict(code, may_reset_producer=False) is Verdict.FAIL


def test_sequences_begin_anew_after_the_largest_int32() -> None:
    state = PartitionProducerState(ProducerId(7, 0), 1, next_sequence=2**31 - 2)
    whole = batch(5)
    state.assign_sequence(whole)
    assert (whole.producer, whole.base_sequence, state.next_sequence) == (ProducerId(7, 0), 2**31 - 2, 3)


def test_a_producer_without_an_identity_has_no_sequences() -> None:
    state = PartitionProducerState(NO_PRODUCER, 1)
    whole = batch(5)
    state.assign_sequence(whole)
    assert (whole.base_sequence, state.next_sequence) == (-1, 0)


def test_halves_hold_the_records_and_sequences_of_the_whole() -> None:
    whole = dataclasses.replace(batch(5), base_sequence=2**31 - 1)
    whole.producer = ProducerId(7, 0)
    first, second = whole.halves()
    assert (first.parts[0].values.to_pylist(), first.base_sequence) == ([b"0", b"1"], 2**31 - 1)
    assert (second.parts[0].values.to_pylist(), second.base_sequence) == ([b"2", b"3", b"4"], 1)
    assert first.index == second.index == whole.index


def test_no_repr_shows_a_payload() -> None:
    own = records([b"s3cret"])
    (encoded,) = ENCODER.encode([own], 1 << 20)
    holder = ProducerBatch(TopicPartition("t", 0), [own], ENCODER, encoded, 0, Deadline.after(60))
    for value in (own, Rows(own, "t", keys=own.values), holder, BatchFailure(holder, ConnectionLost("gone"))):
        assert "s3cret" not in repr(value)
        assert own.values.to_pylist()[0].hex() not in repr(value).lower()
