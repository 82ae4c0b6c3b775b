"""Requests and responses of 0.7 are byte for byte those of its JVM classes and brokers."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import ConnectionLost, KafkaWireError, ProtocolError
from spark_kafkawire.protocol import v07
from spark_kafkawire.protocol.connection import Connection, Response
from spark_kafkawire.protocol.v07 import (
    DIALECT,
    FetchRequest,
    MultiFetchRequest,
    MultiProduceRequest,
    OffsetsRequest,
    ProduceRequest,
)
from tests.protocol.streams import (
    Stream,
    comparable,
    cut,
    feed,
    mutated,
    parse_requests,
    recorded_streams,
)
from tests.support import golden
from tests.support.cases import for_each
from tests.support.failing_case import failing_case
from tests.support.short_and_long import short_and_long

JVM: Final = {
    item["name"]: bytes.fromhex(item["hex"])
    for item in golden.read_json("jvm_encodings.json")
    if "hex" in item
}
ALPHA_BRAVO: Final = bytes.fromhex("0000000b0100d0e0396a616c7068610000000b0100099bb889627261766f")
GZIP_SET: Final = JVM["request/multiproduce"][-43:]
REQUESTS: Final = {
    "request/produce": ProduceRequest("lab-topic", 2, ALPHA_BRAVO),
    "request/produce_random_partition": ProduceRequest("lab-topic", v07.RANDOM_PARTITION, ALPHA_BRAVO),
    "request/produce_empty_set": ProduceRequest("lab-topic", 0, b""),
    "request/multiproduce": MultiProduceRequest(
        (ProduceRequest("lab-a", 0, ALPHA_BRAVO), ProduceRequest("lab-b", 1, GZIP_SET))
    ),
    "request/multiproduce_zero": MultiProduceRequest(()),
    "request/fetch": FetchRequest("lab-topic", 2, 1234567890123, 300 * 1024),
    "request/multifetch": MultiFetchRequest(
        (FetchRequest("lab-a", 0, 0, 1024), FetchRequest("lab-b", 1, 17, 2048))
    ),
    "request/offsets_latest": OffsetsRequest("lab-topic", 0, v07.LATEST_TIME, 1),
    "request/offsets_earliest": OffsetsRequest("lab-topic", 0, v07.EARLIEST_TIME, 10),
    "request/offsets_time": OffsetsRequest("lab-topic", 0, 1_700_000_000_000, 10),
}
#: Recorded requests that are no frames of ours: lengths or counts that do not fit, or nulls.
ILL_FORMED: Final = {
    "produce/set_len_too_short",
    "produce/trailing_garbage",
    "produce/topic_null_length_minus1",
    "multiproduce/count_too_high",
    "multiproduce/count_too_low",
    "fetch/topic_null",
    "fetch/short_body",
    "multifetch/count_too_high",
    "multifetch/count_too_low",
    "multifetch/count_negative",
    "multifetch/null_topic",
    "protocol/unknown_type_5",
    "protocol/length_zero",
    "protocol/length_one",
    "protocol/length_two_fetch",
    "protocol/length_two_produce",
    "protocol/length_too_long_by_4",
    "protocol/http",
}
#: All but the broker's answers to a negative fetch size, which are no frames.
WELL_FORMED: Final = [stream for stream in recorded_streams() if "max_size_-" not in stream.name]


def test_every_request_that_the_jvm_encoded_is_compared() -> None:
    assert set(REQUESTS) == {name for name in JVM if name.startswith("request/")}


@for_each("name", REQUESTS)
def test_a_request_is_byte_equal_to_the_jvms(name: str) -> None:
    assert b"".join(DIALECT.write_request(REQUESTS[name])) == JVM[name]


@for_each("name", REQUESTS)
def test_the_jvms_request_is_read_as_what_it_says(name: str) -> None:
    api, request = DIALECT.read_request(memoryview(JVM[name])[4:])
    assert request == REQUESTS[name]
    assert api is DIALECT.api_of(request)


def test_recorded_requests_are_written_as_they_were_read() -> None:
    for exchange in golden.exchanges():
        with failing_case(exchange.name):
            requests = parse_requests(exchange.request)
            written = b"".join(b"".join(DIALECT.write_request(request)) for request in requests)
            # An illegal topic name of bytes that are not UTF-8 is read as the broker reads it.
            replaced = exchange.request.replace(b"\xff\xfe", b"\xef\xbf\xbd" * 2)
            assert (written in (exchange.request, replaced)) == (exchange.name not in ILL_FORMED)


def test_recorded_responses_are_written_as_they_were_read() -> None:
    for stream in WELL_FORMED:
        with failing_case(stream.name):
            responses = feed(stream.connection(), [stream.responses])
            written = [
                DIALECT.write_response(DIALECT.api_of(response.request), response.body)
                for response in responses
            ]
            assert b"".join(map(b"".join, written)) == stream.responses


def test_truncated_and_mutated_requests_are_requests_or_protocol_errors() -> None:
    draw = random.Random(7)
    frames = [exchange.request for exchange in golden.exchanges() if 4 < len(exchange.request) < 500]
    read = refused = 0
    for turn in range(4_000):
        body = mutated(frames[turn % len(frames)][4:], draw)
        try:
            DIALECT.read_request(memoryview(body[: draw.randint(0, 2 * len(body))]))
            read += 1
        except ProtocolError:
            refused += 1
    assert min(read, refused) > 400


def test_a_message_set_is_sent_without_being_copied() -> None:
    message_set = bytes(1 << 20)
    parts = DIALECT.write_request(ProduceRequest("t", 0, message_set))
    assert parts[-1] is message_set


def test_responses_tell_what_the_recordings_show() -> None:
    bodies = {stream.name: stream for stream in recorded_streams()}

    def body(name: str) -> Any:
        [response] = feed(bodies[name].connection(), [bodies[name].responses])
        return response.body

    assert body("offsets/latest_max10").offsets == (202_000, 141_400, 70_700, 0)
    assert [response.error_code for response in body("multifetch/mixed").responses] == [0, 3, 1, 0, 0]
    assert body("fetch/partition_99").error_code == 3
    assert bytes(body("fetch/max_size_12").message_set).hex() == "0000000b01009271ee576669"


# --- Bytes of real brokers, lying brokers and no brokers, in pieces cut anywhere ---

#: The broker sent a header that is no frame and closed; a client never asks for less than nothing.
NEGATIVE_SIZE: Final = "fetch/max_size_-"
STREAMS: Final = [stream for stream in recorded_streams() if not stream.name.startswith(NEGATIVE_SIZE)]
#: Long enough for all kinds of responses; the longer ones are cut at drawn places.
SMALL: Final = [stream for stream in STREAMS if len(stream.responses) <= 310]
LARGE: Final = [stream for stream in STREAMS if len(stream.responses) > 310]
MUTATION_COUNT: Final = 20_000
#: Streams whose requests ask for more are not mutated, so that memory can be judged.
ASKED_SIZE_MAX: Final = 1 << 20
OFFSETS: Final = OffsetsRequest("t", 0, v07.LATEST_TIME, 2)
TWO_OFFSETS: Final = bytes.fromhex("00000016 0000 00000002 0000000000031510 0000000000022858")
HTTP_ANSWER: Final = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"


def connection_awaiting(*requests: object) -> Connection:
    connection = Connection(v07.DIALECT)
    for request in requests:
        connection.send(request)
    return connection


def whole(stream: Stream) -> list[Response]:
    return feed(stream.connection(), [stream.responses])


def test_there_are_recordings_of_every_answering_request() -> None:
    assert len(recorded_streams()) == 114
    kinds = {type(response.request) for stream in STREAMS for response in whole(stream)}
    assert kinds == {FetchRequest, MultiFetchRequest, OffsetsRequest}


def test_two_chunks_cut_anywhere_and_single_bytes_give_the_same_responses() -> None:
    for stream in SMALL:
        expected = comparable(whole(stream))
        assert expected
        for pos in range(len(stream.responses)):
            with failing_case(f"{stream.name}, {pos=}"):
                chunks = [stream.responses[:pos], stream.responses[pos:]]
                assert comparable(feed(stream.connection(), chunks)) == expected
        bytewise = [stream.responses[pos : pos + 1] for pos in range(len(stream.responses))]
        assert comparable(feed(stream.connection(), bytewise)) == expected


@pytest.mark.parametrize("stream", LARGE, ids=lambda stream: stream.name)
@given(sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=20))
def test_large_responses_in_drawn_chunks_are_the_same(stream: Stream, sizes: list[int]) -> None:
    assert comparable(feed(stream.connection(), cut(stream.responses, sizes))) == comparable(whole(stream))


def test_responses_are_paired_with_their_requests_in_order() -> None:
    requests = tuple(OffsetsRequest("t", partition, v07.LATEST_TIME, 2) for partition in range(5))
    responses = feed(connection_awaiting(*requests), [TWO_OFFSETS * 5])
    assert tuple(response.request for response in responses) == requests


def test_a_produce_awaits_no_response() -> None:
    connection = connection_awaiting(ProduceRequest("t", 0, b""), OFFSETS, ProduceRequest("t", 0, b""))
    assert connection.in_flight == 1
    [response] = feed(connection, [TWO_OFFSETS])
    assert response.request == OFFSETS
    assert connection.in_flight == 0


def test_a_responses_bytes_are_a_view_of_its_frame_that_later_responses_leave_alone() -> None:
    fetch = FetchRequest("t", 0, 0, 3)
    connection = connection_awaiting(fetch, fetch)
    first, second = feed(connection, [bytes.fromhex("00000005 0000 616161 00000005 0000 626262")])
    assert isinstance(first.body.message_set, memoryview)
    assert bytes(first.body.message_set) == b"aaa"
    assert bytes(second.body.message_set) == b"bbb"


@pytest.mark.parametrize("name", ["-1", "-2", "-100", "-2147483648"])
def test_the_nonsense_header_for_a_negative_fetch_size_is_a_protocol_error(name: str) -> None:
    [stream] = [stream for stream in recorded_streams() if stream.name == NEGATIVE_SIZE[:-1] + name]
    with pytest.raises(ProtocolError):
        whole(stream)


@for_each(
    ("request_", "data", "message"),
    [
        (OFFSETS, "7fffffff", "OFFSETS response announces 2147483647 bytes, at most 22 were expected"),
        (OFFSETS, "00000017", "OFFSETS response announces 23 bytes, at most 22 were expected"),
        (OFFSETS, "ffffffff", "OFFSETS response announces -1 bytes"),
        (OFFSETS, "00000000", "int16 of 2 bytes at 0 does not fit in a frame of 0 bytes"),
        (OFFSETS, "00000004 0000 0000", "int32 of 4 bytes at 2 does not fit"),
        (OFFSETS, "00000006 0000 00000001", "array of 1 elements at 6 does not fit"),
        (OFFSETS, "00000006 0000 ffffffff", "array of -1 elements at 6 does not fit"),
        (OFFSETS, "00000007 0000 00000001 00", "int64 of 8 bytes at 6 does not fit"),
        (OFFSETS, "00000007 0000 00000000 00", "OFFSETS response of 7 bytes ends after 6"),
        (FetchRequest("t", 0, 0, 10), "0000000d", "FETCH response announces 13 bytes, at most 12"),
        (
            MultiFetchRequest((FetchRequest("t", 0, 0, 10),)),
            "00000008 0000 00000003 0000",
            "block of 3 bytes at 6 does not fit",
        ),
        (
            MultiFetchRequest((FetchRequest("t", 0, 0, 10),)),
            "00000006 0000 ffffffff",
            "block of -1 bytes at 6 does not fit",
        ),
    ],
)
def test_a_lying_response_poisons_the_connection(request_: object, data: str, message: str) -> None:
    connection = connection_awaiting(request_, request_)
    with pytest.raises(ProtocolError) as first:
        feed(connection, [bytes.fromhex(data)])
    assert message in str(first.value)
    for later in (
        lambda: connection.send(OFFSETS),
        connection.wanted,
        lambda: connection.receive(1),
    ):
        with pytest.raises(ProtocolError) as again:
            later()
        assert again.value is first.value


def test_a_lying_length_is_refused_before_memory_is_taken() -> None:
    connection = connection_awaiting(FetchRequest("t", 0, 0, 1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="announces 2147483647 bytes, at most 1048578"):
            feed(connection, [bytes.fromhex("7fffffff")])
        assert tracemalloc.get_traced_memory()[1] < 1 << 19
    finally:
        tracemalloc.stop()


def test_offsets_without_end_are_refused_however_many_were_asked_for() -> None:
    everything = OffsetsRequest("t", 0, v07.LATEST_TIME, 2**31 - 1)
    with pytest.raises(ProtocolError, match=f"at most {6 + 8 * v07.SEGMENT_COUNT_MAX} were expected"):
        feed(connection_awaiting(everything), [bytes.fromhex("7fffffff")])


@pytest.mark.parametrize(
    ("came", "response_count", "wanted_size", "state"),
    [
        ("", 0, 4, "LENGTH"),
        ("000000", 0, 1, "LENGTH"),
        ("00000016", 0, 22, "BODY"),
        ("00000016 0000 0000", 0, 18, "BODY"),
        (TWO_OFFSETS.hex(), 1, 4, "LENGTH"),
        (TWO_OFFSETS.hex() + "0000", 1, 2, "LENGTH"),
    ],
)
def test_a_connection_goes_from_state_to_state(
    came: str, response_count: int, wanted_size: int, state: str
) -> None:
    connection = connection_awaiting(OFFSETS, OFFSETS)
    result = feed(connection, [bytes([byte]) for byte in bytes.fromhex(came)])
    assert (len(result), len(connection.wanted()), connection._state.name) == (
        response_count,
        wanted_size,
        state,
    )


@pytest.mark.parametrize(
    "came",
    ["00000000", "ffffffff", "7fffffff", "00000002 0000", TWO_OFFSETS.hex() * 2 + "00000002"],
    ids=["no bytes", "less than none", "too long", "too short", "not asked for"],
)
def test_a_connection_that_is_poisoned_stays_so(came: str) -> None:
    connection = connection_awaiting(OFFSETS, OFFSETS)
    with pytest.raises(ProtocolError) as first:
        feed(connection, [bytes([byte]) for byte in bytes.fromhex(came)])
    assert connection._state.name == "POISONED"
    for later in (connection.wanted, lambda: connection.send(OFFSETS), lambda: connection.receive(1)):
        with pytest.raises(ProtocolError) as again:
            later()
        assert again.value is first.value


def test_an_http_server_is_recognized() -> None:
    with pytest.raises(ProtocolError, match=r"b'HTTP'; is this the port of a Kafka 0\.7 broker\?"):
        feed(connection_awaiting(OFFSETS), [HTTP_ANSWER])


def test_bytes_that_nothing_asked_for_are_an_error() -> None:
    connection = connection_awaiting(OFFSETS)
    feed(connection, [TWO_OFFSETS])
    with pytest.raises(ProtocolError, match="but no response was expected"):
        feed(connection, [TWO_OFFSETS])


def test_a_close_names_the_request_and_how_much_of_its_response_had_come() -> None:
    connection = connection_awaiting(ProduceRequest("t", 0, b""))
    assert str(connection.closed()) == "the peer closed the connection; see its log"
    connection.send(OFFSETS)
    assert (
        str(connection.closed()) == "the peer closed the connection instead of answering OFFSETS; see its log"
    )
    feed(connection, [TWO_OFFSETS[:10]])
    assert str(connection.closed()).endswith("instead of answering OFFSETS after 6 of 22 bytes; see its log")


def outcome(stream: Stream, data: bytes) -> list[str] | KafkaWireError:
    """Responses where the whole of them came, else the error, as a client would have it."""
    connection = stream.connection()
    try:
        responses = feed(connection, [data])
    except KafkaWireError as error:
        return error
    return connection.closed() if connection.in_flight else comparable(responses)


def test_every_truncation_is_a_lost_connection() -> None:
    for stream in STREAMS:
        # Long responses are cut at a few hundred places.
        for size in range(0, len(stream.responses), len(stream.responses) // 300 + 1):
            with failing_case(f"{stream.name}, {size=}"):
                assert isinstance(outcome(stream, stream.responses[:size]), ConnectionLost)


@short_and_long("count", short=MUTATION_COUNT // 5, long=MUTATION_COUNT)
def test_random_mutations_give_responses_or_our_errors_in_bounded_memory(count: int) -> None:
    draw = random.Random(20_000)
    streams = [stream for stream in STREAMS if allowed_size(stream) <= ASKED_SIZE_MAX]
    assert len(streams) > len(STREAMS) // 2
    answered = refused = 0
    tracemalloc.start()
    try:
        for turn in range(count):
            stream = streams[turn % len(streams)]
            result = outcome(stream, mutated(stream.responses, draw))
            refused += isinstance(result, ConnectionLost | ProtocolError)
            answered += isinstance(result, list)
        assert tracemalloc.get_traced_memory()[1] < 2 * ASKED_SIZE_MAX
    finally:
        tracemalloc.stop()
    assert answered + refused == count
    assert min(answered, refused) > count // 10


def allowed_size(stream: Stream) -> int:
    """Size of the largest response that the requests allow."""
    return max(v07.DIALECT.api_of(request).response_bytes_max(request) for request in stream.requests)
