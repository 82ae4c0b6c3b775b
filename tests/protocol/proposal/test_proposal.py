"""Requests and responses of the proposal are, byte for byte, what its text says.

No other program speaks it: the bytes here are written out by hand from the document, field by field, with
what ``protocol.proposal`` decides where it is silent.
"""

from __future__ import annotations

import random
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import ProtocolError
from spark_kafkawire.protocol import proposal, v07
from spark_kafkawire.protocol.connection import Connection
from spark_kafkawire.protocol.proposal import (
    DIALECT,
    ErrorCode,
    FetchRequest,
    FetchResponse,
    OffsetData,
    PartitionData,
    ProduceRequest,
    ProduceResponse,
    TopicData,
    broker_error,
)
from tests.support import golden
from tests.support.cases import for_each
from tests.support.failing_case import failing_case

from ..streams import comparable, cut, feed, mutated

CLIENT: Final = "my-client"
#: Sets of two messages and of one, as the JVM of 0.7.2 encoded them.
TWO: Final = bytes.fromhex("0000000b0100d0e0396a616c7068610000000b0100099bb889627261766f")
ONE: Final = TWO[:15]

PRODUCE: Final = ProduceRequest(
    1,
    30_000,
    (
        TopicData("lab", (PartitionData(0, TWO), PartitionData(2, ONE))),
        TopicData("x", (PartitionData(1, b""),)),
    ),
)
PRODUCE_BYTES: Final = f"""
    0000006b                     # size: int32
    02bc                         # request_type_id: int16, 700
    0000                         # version_id: int16
    00000007                     # correlation_id: int32
    0009 6d792d636c69656e74      # client_id: string
    01                           # required_acks: int8
    00007530                     # ack_timeout: int32
    0002                         # data: [topic_data_struct], two
    0003 6c6162                  #   topic: string
    0002                         #   partition_data: [partition_data_struct], two
    00000000                     #     partition: int32
    0000001e {TWO.hex()}         #     messages: message_set, its size before it
    00000002                     #     partition: int32
    0000000f {ONE.hex()}         #     messages: message_set
    0001 78                      #   topic: string
    0001                         #   partition_data: one
    00000001                     #     partition: int32
    00000000                     #     messages: an empty set
"""
PRODUCED: Final = ProduceResponse(0, (-1, 2, -1), (1 << 40, -1, 17))
PRODUCED_BYTES: Final = """
    0000002a                     # size: int32
    00000007                     # correlation_id: int32
    0000                         # version_id: int16
    0000                         # error: int16
    0003 ffff 0002 ffff          # errors: [int16], -1 if none
    0003 0000010000000000 ffffffffffffffff 0000000000000011     # offsets: [int64]
"""
FETCH: Final = FetchRequest(
    -1, 500, 1, (OffsetData("lab", (0, 2), (0, 1 << 40)), OffsetData("x", (1,), (17,)))
)
FETCH_BYTES: Final = """
    00000055                     # size: int32
    02bd                         # request_type_id: int16, 701
    00000008                     # correlation_id: int32, before the version here
    0000                         # version_id: int16
    0009 6d792d636c69656e74      # client_id: string
    ffffffff                     # replica_id: int32, no replica
    000001f4                     # max_wait: int32
    00000001                     # min_bytes: int32
    0002                         # topic_offsets: [offset_data], two
    0003 6c6162                  #   topic: string
    0002 00000000 00000002       #   partitions: [int32]
    0002 0000000000000000 0000010000000000     #   offsets: [int64]
    0001 78                      #   topic: string
    0001 00000001                #   partitions: [int32]
    0001 0000000000000011        #   offsets: [int64]
"""
FETCHED: Final = FetchResponse(0, PRODUCE.data)
FETCHED_BYTES: Final = f"""
    0000005b                     # size: int32
    00000008                     # correlation_id: int32
    0000                         # version_id: int16
    0000                         # error: int16
    0002                         # data: [topic_data_struct], as of a produce
    0003 6c6162 0002 00000000 0000001e {TWO.hex()} 00000002 0000000f {ONE.hex()}
    0001 78 0001 00000001 00000000
"""
REFUSED: Final = FetchResponse(1, (TopicData("x", (PartitionData(1, b""),)),))
REFUSED_BYTES: Final = """
    00000017                     # size: int32
    00000008 0000                # correlation_id: int32, version_id: int16
    0001                         # error: int16, the offset is out of range
    0001 0001 78 0001 00000001 00000000     # data: where
"""


def bytes_of(text: str) -> bytes:
    """The hexadecimal digits of all lines, each up to its remark."""
    return bytes.fromhex("".join(line.partition("#")[0] for line in text.splitlines()))


REQUESTS: Final = [(PRODUCE, PRODUCE_BYTES, 7), (FETCH, FETCH_BYTES, 8)]
RESPONSES: Final = [
    (PRODUCE, PRODUCED, PRODUCED_BYTES, 7),
    (FETCH, FETCHED, FETCHED_BYTES, 8),
    (FETCH, REFUSED, REFUSED_BYTES, 8),
]


def answered(request: Any, *responses: bytes) -> list[Any]:
    """Results of a connection for responses to a request, which has correlation id 0."""
    connection = Connection(DIALECT)
    connection.send(request)
    return [response.body for response in feed(connection, responses)]


def response_bytes(request: Any, response: Any, version: int = 0, correlation_id: int = 0) -> bytes:
    return b"".join(DIALECT.write_response(DIALECT.api_of(request), response, version, correlation_id))


def plain(value: Any) -> Any:
    """A message whose sets are bytes, not views, so that it can be compared."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if hasattr(value, "__slots__") and not isinstance(value, memoryview):
        return type(value)(*(plain(getattr(value, name)) for name in value.__slots__))
    return bytes(value) if isinstance(value, memoryview) else value


@pytest.mark.parametrize(("request_", "text", "correlation_id"), REQUESTS)
def test_a_request_is_what_the_document_says(request_: Any, text: str, correlation_id: int) -> None:
    written = b"".join(DIALECT.write_request(request_, 0, correlation_id, CLIENT))
    assert written.hex() == bytes_of(text).hex()
    api, header, pos = DIALECT.read_request_header(memoryview(written)[4:])
    assert (header.api_version, header.correlation_id, header.client_id) == (0, correlation_id, CLIENT)
    assert plain(api.request_codec(0).read(memoryview(written)[4:], pos)[0]) == request_


@pytest.mark.parametrize(("request_", "response", "text", "correlation_id"), RESPONSES)
def test_a_response_is_what_the_document_says(
    request_: Any, response: Any, text: str, correlation_id: int
) -> None:
    api = DIALECT.api_of(request_)
    assert response_bytes(request_, response, 0, correlation_id).hex() == bytes_of(text).hex()
    read = DIALECT.read_response(api, memoryview(bytes_of(text))[4:], 0, correlation_id)
    assert plain(read) == response


def test_no_client_id_is_an_empty_one() -> None:
    assert b"".join(DIALECT.write_request(FETCH))[12:14] == b"\0\0"


def test_a_topic_is_named_once_for_all_of_its_partitions() -> None:
    request = FetchRequest(-1, 0, 0, (OffsetData("a-topic", tuple(range(1000)), (0,) * 1000),))
    assert b"".join(DIALECT.write_request(request)).count(b"a-topic") == 1


def test_a_produce_without_acknowledgement_awaits_no_response() -> None:
    connection = Connection(DIALECT)
    connection.send(ProduceRequest(proposal.ACKS_NONE, 0, ()))
    assert connection.in_flight == 0
    connection.send(ProduceRequest(proposal.ACKS_BROKER, 0, ()))
    assert connection.in_flight == 1


@for_each(
    ("request_", "response", "fault"),
    [
        (PRODUCE, ProduceResponse(0, (-1, -1), (0, 0)), "it has 2 errors of 3 message sets"),
        (PRODUCE, ProduceResponse(0, (-1,) * 3, (0, 0)), "it has 2 offsets of 3 message sets"),
        (PRODUCE, ProduceResponse(0, (-1, -1, -1), (0, -1, 0)), "the offset -1"),
        (PRODUCE, ProduceResponse(0, (-1, 2, -1), (0, 5, 0)), "error 2 and offset 5"),
        (PRODUCE, ProduceResponse(21, (-1, 2, 2), (0, -1, -1)), "error 21 and a message set without one"),
        (FETCH, FetchResponse(0, FETCHED.data[:1]), "it lacks x 1"),
        (FETCH, FetchResponse(0, FETCHED.data[::-1]), "in another order"),
        (
            FETCH,
            FetchResponse(0, (*FETCHED.data, TopicData("y", (PartitionData(0, b""),)))),
            "it contains y 0",
        ),
        (FETCH, FetchResponse(1, (TopicData("y", (PartitionData(0, b""),)),)), "about y 0"),
        (FETCH, FetchResponse(1, (TopicData("x", (PartitionData(1, ONE),)),)), "it has error 1 and messages"),
        (
            FETCH,
            FetchResponse(1, (TopicData("lab", (PartitionData(0, b""), PartitionData(2, b""))),)),
            "its error 1 is about 2 partitions",
        ),
    ],
)
def test_refuse_a_response_that_does_not_match_its_request(request_: Any, response: Any, fault: str) -> None:
    with pytest.raises(ProtocolError, match=fault):
        answered(request_, response_bytes(request_, response))


@pytest.mark.parametrize("error_code", [0, -1])
def test_no_error_of_a_set_is_minus_one_as_written_or_zero(error_code: int) -> None:
    request = ProduceRequest(1, 0, (TopicData("t", (PartitionData(0, ONE),)),))
    [body] = answered(request, response_bytes(request, ProduceResponse(0, (error_code,), (5,))))
    assert body.offsets == (5,)


def test_a_response_of_another_version_or_to_another_request_is_refused() -> None:
    with pytest.raises(ProtocolError, match="got a response of version 1"):
        answered(
            PRODUCE, response_bytes(PRODUCE, PRODUCED)[:9] + b"\1" + response_bytes(PRODUCE, PRODUCED)[10:]
        )
    with pytest.raises(ProtocolError, match="request 0 got the response to request 3"):
        answered(PRODUCE, response_bytes(PRODUCE, PRODUCED, correlation_id=3))
    longer = response_bytes(FETCH, FETCHED)
    with pytest.raises(ProtocolError, match="ends after"):
        answered(FETCH, (len(longer) - 3).to_bytes(4, "big") + longer[4:] + b"\0")


def test_a_response_longer_than_its_request_allows_is_refused_before_it_comes() -> None:
    for request, limit in (
        (PRODUCE, len(bytes_of(PRODUCED_BYTES)) - 4),
        (FETCH, len(bytes_of(FETCHED_BYTES)) - 4 - len(TWO + ONE) + proposal.FETCH_BYTES_MAX),
    ):
        assert DIALECT.api_of(request).response_bytes_max(request) == limit
        with pytest.raises(ProtocolError, match=f"at most {limit} were expected"):
            answered(request, (limit + 1).to_bytes(4, "big"))


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=9))
def test_responses_in_chunks_of_any_size_are_the_same(sizes: list[int]) -> None:
    def came(chunks: list[bytes]) -> list[str]:
        connection = Connection(DIALECT)
        for request in (PRODUCE, FETCH, FETCH):
            connection.send(request)
        return comparable(feed(connection, chunks))

    stream = b"".join(
        response_bytes(request, response, 0, index)
        for index, (request, response) in enumerate([(PRODUCE, PRODUCED), (FETCH, FETCHED), (FETCH, REFUSED)])
    )
    assert came(cut(stream, sizes)) == came([stream])


def test_no_request_of_07_can_be_taken_for_one_of_the_proposal_nor_the_other_way() -> None:
    """The first two bytes of a request are its id in both, and no id is of both."""
    keys = {dialect: {api.key for api in dialect.apis} for dialect in (v07.DIALECT, DIALECT)}
    assert keys == {v07.DIALECT: {0, 1, 2, 3, 4}, DIALECT: {700, 701}}
    recorded = [item.request[4:] for item in golden.exchanges() if len(item.request) > 6]
    ours = [bytes_of(text)[4:] for _, text, _ in REQUESTS]
    assert len(recorded) > 100
    for body in recorded:
        with failing_case(body[:20].hex()), pytest.raises(ProtocolError, match="unknown request type"):
            DIALECT.read_request(memoryview(body))
    for body in ours:
        with pytest.raises(ProtocolError, match="unknown request type"):
            v07.DIALECT.read_request(memoryview(body))


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_of_one_format_at_most(body: bytes) -> None:
    read = 0
    for dialect in (v07.DIALECT, DIALECT):
        try:
            dialect.read_request(memoryview(body))
            read += 1
        except ProtocolError:
            pass
    assert read <= 1


def test_truncated_and_mutated_requests_and_responses_are_read_or_refused() -> None:
    draw = random.Random(7)
    bodies = [bytes_of(text)[4:] for _, text, _ in REQUESTS]
    answers = [(DIALECT.api_of(asked), bytes_of(text)[4:], id) for asked, _, text, id in RESPONSES]
    read = refused = 0
    for turn in range(4_000):
        api, answer, correlation_id = answers[turn % len(answers)]
        changed = mutated(bodies[turn % len(bodies)], draw), mutated(answer, draw)
        request, response = (item[: draw.randint(len(item) // 2, 2 * len(item))] for item in changed)
        for ask in (
            lambda request=request: DIALECT.read_request(memoryview(request)),
            lambda api=api, response=response, id=correlation_id: DIALECT.read_response(
                api, memoryview(response), 0, id
            ),
        ):
            try:
                ask()
                read += 1
            except ProtocolError:
                refused += 1
    assert min(read, refused) > 400


def test_a_set_is_sent_without_being_copied() -> None:
    messages = bytes(1 << 20)
    request = ProduceRequest(1, 0, (TopicData("t", (PartitionData(0, messages),)),))
    assert DIALECT.write_request(request)[-1] is messages


@for_each("code", [code for code in ErrorCode if code])
def test_report_every_error_in_one_line_with_what_to_do(code: ErrorCode) -> None:
    text = str(broker_error(code, "Produce to t 0-1"))
    assert text.isprintable()
    assert f"error {code.value} {code.name}" in text
    assert code.remedy in text
