"""Messages in every version: read back as written, and equal to the codecs of others."""

from __future__ import annotations

from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafkawire.protocol.modern import DIALECT
from spark_kafkawire.protocol.primitives import join
from tests.support.cases import for_each
from tests.support.kio_library import NEEDS_KIO

from .judges import differences, judges_of
from .messages import Case, cases

#: Drawn values for each message and version.
EXAMPLE_COUNT: Final = 8

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
}


def framed(case: Case, message: object, correlation_id: int, client_id: str | None) -> bytes:
    if case.kind == "request":
        return join(DIALECT.write_request(message, case.version, correlation_id, client_id))
    return join(DIALECT.write_response(case.api, message, case.version, correlation_id))


def unframed(case: Case, frame: bytes, correlation_id: int) -> object:
    body = memoryview(frame)[4:]
    if case.kind == "request":
        return DIALECT.read_request(body)[1]
    return DIALECT.read_response(case.api, body, case.version, correlation_id)


@for_each("case", cases("request", "response"), ids=str)
# No deadline for one example: a busy machine takes its time from whichever is running.
@settings(max_examples=EXAMPLE_COUNT)
@given(data=st.data())
def test_a_message_is_read_back_and_the_codecs_of_others_have_the_same_frame(
    case: Case, data: st.DataObject
) -> None:
    message = data.draw(case.values())
    correlation_id = data.draw(st.integers(0, 2**31 - 1))
    client_id = data.draw(st.none() | st.text(max_size=4)) if case.kind == "request" else None
    assert_as_others_have_it(case, message, correlation_id, client_id)


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
