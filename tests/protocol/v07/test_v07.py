"""Requests and responses of 0.7 are byte for byte those of its JVM classes and brokers."""

from __future__ import annotations

import random
from typing import Any, Final

from spark_kafkawire.errors import ProtocolError
from spark_kafkawire.protocol import v07
from spark_kafkawire.protocol.primitives import join
from spark_kafkawire.protocol.v07 import (
    DIALECT,
    FetchRequest,
    MultiFetchRequest,
    MultiProduceRequest,
    OffsetsRequest,
    ProduceRequest,
)
from tests.support import golden
from tests.support.cases import for_each
from tests.support.failing_case import failing_case

from ..streams import feed, mutated, parse_requests, recorded_streams

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
    assert join(DIALECT.write_request(REQUESTS[name])) == JVM[name]


@for_each("name", REQUESTS)
def test_the_jvms_request_is_read_as_what_it_says(name: str) -> None:
    api, request = DIALECT.read_request(memoryview(JVM[name])[4:])
    assert request == REQUESTS[name]
    assert api is DIALECT.api_of(request)


def test_recorded_requests_are_written_as_they_were_read() -> None:
    for exchange in golden.exchanges():
        with failing_case(exchange.name):
            requests = parse_requests(exchange.request)
            written = b"".join(join(DIALECT.write_request(request)) for request in requests)
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
            assert b"".join(map(join, written)) == stream.responses


def test_truncated_and_mutated_requests_are_requests_or_protocol_errors() -> None:
    draw = random.Random(7)
    frames = [exchange.request for exchange in golden.exchanges() if 4 < len(exchange.request) < 500]
    read = refused = 0
    for turn in range(20_000):
        body = mutated(frames[turn % len(frames)][4:], draw)
        try:
            DIALECT.read_request(memoryview(body[: draw.randint(0, 2 * len(body))]))
            read += 1
        except ProtocolError:
            refused += 1
    assert min(read, refused) > 2_000


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
