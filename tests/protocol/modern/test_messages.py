"""Messages in every version: read back as written, and equal to the codecs of others."""

from __future__ import annotations

import random
import sys
import tracemalloc
from itertools import groupby
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafkawire.errors import ProtocolError
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.modern import DIALECT
from tests.support.cases import for_each
from tests.support.failing_case import failing_case
from tests.support.kio_library import NEEDS_KIO
from tests.support.short_and_long import short_and_long

from .messages import Case, cases, differences, judges_of

#: Drawn values of all messages and versions together.
EXAMPLE_COUNT: Final = settings().max_examples * 8
#: A topic of TxnOffsetCommit 6: its id, and twice partition_index, committed_offset, committed_leader_epoch,
#: committed_metadata; and of its response, twice partition_index and error_code.
_ID: Final = "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 07 03"
_COMMITTED: Final = _ID + 2 * "00 00 00 03 00 00 00 00 00 00 00 03 00 00 00 03 04 6e c3 b6 00" + "00"
_OUTCOMES: Final = _ID + 2 * "00 00 00 03 00 03 00" + "00"
#: Frames of ``Case.full()`` with the correlation id 7 and the client id "kw", written out field by field:
#: they judge what neither kio nor kafka-python knows yet. One that both know shows how.
WRITTEN_OUT: Final = {
    "ApiVersions request 4": (
        "00 00 00 16"  # size
        "00 12 00 04"  # API key and version
        "00 00 00 07"  # correlation_id
        "00 02 6b 77"  # client_id
        "00"  # no tagged field in the header
        "04 6e c3 b6"  # client_software_name
        "04 6e c3 b6"  # client_software_version
        "00"  # no tagged field
    ),
    "ApiVersions request 5": (
        "00 00 00 1e 00 12 00 05 00 00 00 07 00 02 6b 77 00"
        "04 6e c3 b6 04 6e c3 b6"  # as in version 4
        "04 6e c3 b6"  # cluster_id
        "00 00 00 03"  # node_id
        "00"
    ),
    # As in version 4, which two judges know.
    "ApiVersions response 5": (
        "00 00 00 2f 00 00 00 07 00 00 03 00 03 00 03 00 03 00 00 03 00 03 00 03 00 00 00 00 03 01"
        "02 13 03 04 6e c3 b6 00 03 00 03 00 04 6e c3 b6 00 03 00 03 00"
    ),
    "TxnOffsetCommit request 6": (
        "00 00 00 a5 00 1c 00 06 00 00 00 07 00 02 6b 77 00"
        "04 6e c3 b6 04 6e c3 b6"  # transactional_id, group_id
        "00 00 00 00 00 00 00 03 00 03"  # producer_id, producer_epoch
        "00 00 00 03 04 6e c3 b6 04 6e c3 b6"  # generation_id_or_member_epoch, member_id, group_instance_id
        "03" + _COMMITTED + _COMMITTED + "00"  # topics
    ),
    "TxnOffsetCommit response 6": (
        "00 00 00 4b 00 00 00 07 00 00 00 00 03"  # throttle_time_ms
        "03" + _OUTCOMES + _OUTCOMES + "00"  # topics
    ),
}


def framed(case: Case, message: object, correlation_id: int, client_id: str | None) -> bytes:
    if case.kind == "request":
        return b"".join(DIALECT.write_request(message, case.version, correlation_id, client_id))
    return b"".join(DIALECT.write_response(case.api, message, case.version, correlation_id))


def unframed(case: Case, frame: bytes, correlation_id: int) -> object:
    body = memoryview(frame)[4:]
    if case.kind == "request":
        return DIALECT.read_request(body)[1]
    return DIALECT.read_response(case.api, body, case.version, correlation_id)


@pytest.mark.slow
@settings(max_examples=EXAMPLE_COUNT)
@given(case=st.sampled_from(cases("request", "response")), data=st.data())
def test_a_message_is_read_back_and_the_codecs_of_others_have_the_same_frame(
    case: Case, data: st.DataObject
) -> None:
    message = data.draw(case.values())
    correlation_id = data.draw(st.integers(0, 2**31 - 1))
    client_id = data.draw(st.none() | st.text(max_size=4)) if case.kind == "request" else None
    assert_as_others_have_it(case, message, correlation_id, client_id)


@pytest.mark.slow
@for_each("case", cases("request", "response"), ids=str)
def test_a_message_with_all_that_its_version_has_is_the_same_to_the_codecs_of_others(case: Case) -> None:
    client_id = "kw" if case.kind == "request" else None
    assert_as_others_have_it(case, case.full(), 7, client_id)
    if str(case) in WRITTEN_OUT:
        assert framed(case, case.full(), 7, client_id) == bytes.fromhex(WRITTEN_OUT[str(case)])


def assert_as_others_have_it(case: Case, message: object, correlation_id: int, client_id: str | None) -> None:
    frame = framed(case, message, correlation_id, client_id)
    assert unframed(case, frame, correlation_id) == message
    for judge in judges_of(case):
        verdict = judge(case, frame)
        assert (judge, list(differences(message, verdict.body, case.version))) == (judge, [])
        assert (judge, verdict.correlation_id, verdict.client_id) == (judge, correlation_id, client_id)
        if case.kind == "request":
            assert (judge, verdict.api_key, verdict.version) == (judge, case.api.key, case.version)
        assert (judge, verdict.frame) == (judge, frame)


@NEEDS_KIO
def test_every_message_has_a_judge_and_most_of_kafka_4_have_two() -> None:
    counts = {str(case): len(judges_of(case)) for case in cases("request", "response")}
    assert WRITTEN_OUT.keys() <= counts.keys()
    counts = {name: count for name, count in counts.items() if name not in WRITTEN_OUT}
    assert [name for name, count in counts.items() if count == 0] == []
    assert {name for name, count in counts.items() if count < 2} == {
        f"{api} {kind} {version}"
        for api, versions in (
            ("Produce", range(3)),
            ("Fetch", range(4)),
            ("ListOffsets", range(1)),
            ("OffsetCommit", range(1, 2)),
            ("DescribeConfigs", range(1)),
            # kafka-python has no messages of the newer groups, and none of delegation tokens.
            ("ConsumerGroupDescribe", range(2)),
            ("ShareGroupDescribe", range(1, 2)),
            ("StreamsGroupDescribe", range(1)),
            ("CreateDelegationToken", range(1, 4)),
            ("RenewDelegationToken", range(1, 3)),
            ("ExpireDelegationToken", range(1, 3)),
        )
        for version in versions
        for kind in ("request", "response")
    }


# --- Responses cut, changed and made up: a message or a ProtocolError, in bounded memory ---

RESPONSES: Final = cases("response")
RESPONSES_BY_API: Final = [(api, list(group)) for api, group in groupby(RESPONSES, key=lambda case: case.api)]
#: Of each response the last version, and the last one before lengths became compact.
LAST_OF_THEIR_KIND: Final = [
    case for case in RESPONSES if case.version in (case.api.versions.max, (case.api.flexible_since or 0) - 1)
]
CORRELATION_ID: Final = 7
#: Numbers that lengths and counts are set to: int32, int16 and varint extremes.
EXTREMES: Final = [
    bytes.fromhex(text) for text in ("7fffffff", "ffffffff", "7fff", "ffff", "ffffffff0f", "00")
]
#: Memory that a frame of small elements may take, per byte of it: their objects, which take more before
#: Python 3.11.
MEMORY_PER_BYTE_MAX: Final = 20 if sys.version_info >= (3, 11) else 30


def body_of(case: Case) -> bytes:
    parts = modern.DIALECT.write_response(case.api, case.full(), case.version, CORRELATION_ID)
    return b"".join(parts)[4:]


def outcome(case: Case, body: bytes) -> Any:
    try:
        return modern.DIALECT.read_response(case.api, memoryview(body), case.version, CORRELATION_ID)
    except ProtocolError as error:
        return error


each_api: Final = pytest.mark.parametrize(
    ("api", "versions"), RESPONSES_BY_API, ids=[api.name for api, _ in RESPONSES_BY_API]
)


@pytest.mark.slow
@each_api
def test_every_truncation_of_a_response_is_a_protocol_error(api: Api, versions: list[Case]) -> None:
    for case in versions:
        with failing_case(case):
            body = body_of(case)
            assert case.api is api
            assert outcome(case, body) == case.full()
            # Versions between two kinds of lengths differ in few fields.
            for size in range(0, len(body), 1 if case in LAST_OF_THEIR_KIND else 11):
                assert isinstance(outcome(case, body[:size]), ProtocolError), size


@each_api
def test_bytes_after_a_response_are_ignored_as_kafkas_clients_do(api: Api, versions: list[Case]) -> None:
    for case in versions:
        with failing_case(case):
            assert case.api is api
            assert outcome(case, body_of(case) + b"\0") == case.full()


def mutated(body: bytes, draw: random.Random) -> bytes:
    """``body`` with a few bytes changed, taken out, doubled, or set to an extreme number."""
    changed = bytearray(body)
    for _ in range(draw.randint(1, 3)):
        pos = draw.randrange(4, len(changed) + 1)
        match draw.randrange(4):
            case 0:
                changed[pos : pos + 1] = draw.randbytes(1)
            case 1:
                del changed[pos : pos + draw.randint(1, 8)]
            case 2:
                changed[pos:pos] = changed[pos : pos + draw.randint(1, 8)]
            case _:
                extreme = draw.choice(EXTREMES)
                changed[pos : pos + len(extreme)] = extreme
    return bytes(changed)


@short_and_long("count", short=1_000, long=20_000)
@each_api
def test_random_mutations_of_a_response_give_a_message_or_a_protocol_error(
    count: int, api: Api, versions: list[Case]
) -> None:
    draw = random.Random(api.name)
    bodies = [(case, body_of(case)) for case in versions]
    read = refused = 0
    for turn in range(count):
        case, body = bodies[turn % len(bodies)]
        result = outcome(case, mutated(body, draw))
        read += isinstance(result, api.response or ())
        refused += isinstance(result, ProtocolError)
    assert read + refused == count
    assert min(read, refused) > count // 50


@short_and_long("places_max", short=10, long=100_000)
@pytest.mark.parametrize("case", LAST_OF_THEIR_KIND, ids=str)
def test_a_frame_of_the_smallest_elements_takes_memory_in_proportion(case: Case, places_max: int) -> None:
    """After places where a count may be: as many elements of zeros as the frame can hold."""
    body, size = body_of(case), 6_000
    tracemalloc.start()
    try:
        for pos in range(4, len(body), 1 + len(body) // places_max):
            for count in (size.to_bytes(4, "big"), b"\xf1\x2e"):
                frame = body[:pos] + count + bytes(size)
                # Threads of tests before this one may allocate beside it, but not each time.
                assert any(_peak(case, frame) < MEMORY_PER_BYTE_MAX * len(frame) for _ in range(10)), pos
    finally:
        tracemalloc.stop()


def _peak(case: Case, frame: bytes) -> int:
    """Most bytes that reading a frame takes."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    outcome(case, frame)
    return tracemalloc.get_traced_memory()[1] - before
