"""A connection whose responses carry correlation ids and versions: paired, bounded, poisoned."""

from __future__ import annotations

import tracemalloc
import uuid
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError, ProtocolError, UnsupportedVersionError
from spark_kafkawire.protocol import connection as connection_module
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import BrokerVersions, VersionRange
from spark_kafkawire.protocol.connection import Connection
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
)
from spark_kafkawire.protocol.modern.group_members import ClassicAssignedTopic, parse_assigned_topics
from spark_kafkawire.protocol.modern.group_offsets import GROUP, TRANSACTION, FindCoordinatorRequest
from spark_kafkawire.protocol.modern.limits import READ_COMMITTED
from spark_kafkawire.protocol.modern.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from spark_kafkawire.protocol.modern.metadata import (
    MetadataBroker,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from spark_kafkawire.protocol.modern.negotiation import (
    ASKING,
    GROUPS_OF_NOTHING,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    list_offered,
)
from spark_kafkawire.protocol.modern.produce import InitProducerIdRequest, ProduceRequest, ProduceResponse
from tests.protocol.streams import cut, feed
from tests.support.cases import for_each

TOPIC_ID: Final = uuid.UUID(int=9)
METADATA_RESPONSE: Final = MetadataResponse(
    brokers=(MetadataBroker(node_id=1, host="h", port=9092),), topics=(), cluster_id="c"
)
#: What is spoken to this broker of Fetch.
NEWEST_FETCH: Final = modern.FETCH.versions.max
OLDER: Final = BrokerVersions(
    {
        modern.METADATA.key: VersionRange(0, 5),
        modern.FETCH.key: VersionRange(4, NEWEST_FETCH),
        modern.PRODUCE.key: VersionRange(3, 8),
        modern.LIST_OFFSETS.key: VersionRange(1, 1),
    }
)


def negotiated(versions: BrokerVersions = OLDER, client_id: str | None = "kw") -> Connection:
    connection = Connection(modern.DIALECT, client_id)
    connection.use_versions(versions)
    return connection


def fetch(topic_id: uuid.UUID = TOPIC_ID, **settings: Any) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=5, partition_max_bytes=100)
    topic = FetchTopic(topic="t", topic_id=topic_id, partitions=(partition,))
    return FetchRequest(max_wait_ms=1, min_bytes=1, topics=(topic,), **settings)


def response_frame(response: object, version: int, correlation_id: int) -> bytes:
    [api] = [api for api in modern.DIALECT.apis if api.response is type(response)]
    return b"".join(modern.DIALECT.write_response(api, response, version, correlation_id))


def test_a_request_frame_is_header_and_request_of_the_negotiated_version() -> None:
    sent = [b"".join(negotiated(client_id=name).send(MetadataRequest(topics=None))) for name in ("kw", None)]
    assert sent == [
        bytes.fromhex("00000011 0003 0005 00000000 0002 6b77 ffffffff 01"),
        bytes.fromhex("0000000f 0003 0005 00000000 ffff ffffffff 01"),
    ]


def test_a_flexible_request_keeps_the_plain_client_id_and_has_tagged_fields_after_it() -> None:
    sent = b"".join(Connection(modern.DIALECT, "kw").send(InitProducerIdRequest()))
    header = "0016 0005 00000000 0002 6b77 00"
    assert sent == bytes.fromhex(f"0000001d {header} 00 7fffffff ffffffffffffffff ffff 00")


def test_responses_of_several_kinds_are_paired_in_order_in_any_chunks() -> None:
    requests = (MetadataRequest(topics=None), fetch(), ListOffsetsRequest(topics=()), fetch())
    records = FetchPartitionResponse(partition_index=0, error_code=0, high_watermark=7, records=b"records")
    responses: tuple[Any, ...] = (
        METADATA_RESPONSE,
        FetchResponse(responses=(FetchTopicResponse(topic_id=TOPIC_ID, partitions=(records,)),)),
        ListOffsetsResponse(topics=()),
        FetchResponse(responses=(), error_code=70),
    )
    versions = (5, NEWEST_FETCH, 1, NEWEST_FETCH)
    frames = b"".join(
        response_frame(response, versions[index], index) for index, response in enumerate(responses)
    )
    for size in range(1, len(frames) + 1):
        connection = negotiated()
        for request in requests:
            connection.send(request)
        assert connection.in_flight == 4
        result = feed(connection, cut(frames, [size]))
        assert [(response.request, response.body) for response in result] == list(
            zip(requests, responses, strict=True)
        )


@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=10))
def test_drawn_chunks_give_the_same_responses(sizes: list[int]) -> None:
    frames = b"".join(response_frame(METADATA_RESPONSE, 5, index) for index in range(6))
    connection = negotiated()
    for _ in range(6):
        connection.send(MetadataRequest(topics=None))
    assert [response.body for response in feed(connection, cut(frames, sizes))] == [METADATA_RESPONSE] * 6


@pytest.mark.parametrize("correlation_id", [1, -1, 2**31 - 1])
def test_the_response_to_another_request_poisons_the_connection(correlation_id: int) -> None:
    connection = negotiated()
    connection.send(MetadataRequest(topics=None))
    connection.send(MetadataRequest(topics=None))
    with pytest.raises(ProtocolError) as first:
        feed(connection, [response_frame(METADATA_RESPONSE, 5, correlation_id)])
    assert str(first.value).startswith(f"Metadata request 0 got the response to request {correlation_id}; ")
    for later in (lambda: connection.send(fetch()), connection.wanted, lambda: connection.receive(1)):
        with pytest.raises(ProtocolError) as again:
            later()
        assert again.value is first.value


def test_the_answer_to_the_second_question_tells_that_the_first_was_passed_over() -> None:
    connection = Connection(ASKING, "kw")
    connection.send(ApiVersionsRequest())
    connection.send(GROUPS_OF_NOTHING)
    [response] = feed(connection, [bytes.fromhex("00000008 00000001 00000000")])
    assert response.request == GROUPS_OF_NOTHING
    assert connection.in_flight == 0


def test_correlation_ids_start_again_where_their_field_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "CORRELATION_ID_MAX", 1)
    connection = negotiated()
    sent = [b"".join(connection.send(MetadataRequest(topics=None)))[8:12] for _ in range(3)]
    assert [int.from_bytes(ids, "big") for ids in sent] == [0, 1, 0]
    frames = [response_frame(METADATA_RESPONSE, 5, correlation_id) for correlation_id in (0, 1, 0)]
    assert len(feed(connection, frames)) == 3


def test_a_produce_without_acks_awaits_no_response() -> None:
    connection = negotiated()
    connection.send(ProduceRequest(acks=0, timeout_ms=1, topic_data=()))
    assert connection.in_flight == 0
    connection.send(ProduceRequest(acks=-1, timeout_ms=1, topic_data=()))
    [response] = feed(connection, [response_frame(ProduceResponse(responses=()), 8, 1)])
    assert response.request.acks == -1


def test_topics_without_ids_are_fetched_in_the_last_version_that_has_names() -> None:
    assert b"".join(negotiated().send(fetch()))[6:8] == NEWEST_FETCH.to_bytes(2, "big")
    assert b"".join(negotiated().send(fetch(topic_id=uuid.UUID(int=0))))[6:8] == b"\0\x0c"
    newest = negotiated(BrokerVersions({modern.FETCH.key: VersionRange(13, 18)}))
    with pytest.raises(UnsupportedVersionError, match=r"offers 13-18, this client supports 0-12"):
        newest.send(fetch(topic_id=uuid.UUID(int=0)))


def test_a_request_that_cannot_be_sent_leaves_the_connection_as_it_was() -> None:
    connection = negotiated()
    with pytest.raises(UnsupportedVersionError, match="no common version of Metadata"):
        negotiated(BrokerVersions({3: VersionRange(14, 15)})).send(MetadataRequest(topics=None))
    with pytest.raises(UnsupportedVersionError, match="MetadataRequest version 5 cannot carry"):
        connection.send(MetadataRequest(topics=(), include_topic_authorized_operations=True))
    with pytest.raises(OptionError, match="a name of 40000 bytes"):
        connection.send(MetadataRequest(topics=(MetadataRequestTopic(name="t" * 40_000),)))
    connection.send(MetadataRequest(topics=None))
    assert connection.in_flight == 1
    assert len(feed(connection, [response_frame(METADATA_RESPONSE, 5, 0)])) == 1


def test_what_old_brokers_need_not_know_is_left_out() -> None:
    old = negotiated(modern.BEFORE_API_VERSIONS)
    plain = b"".join(negotiated(modern.BEFORE_API_VERSIONS).send(fetch(max_bytes=0x7FFFFFFF)))
    assert b"".join(old.send(fetch(max_bytes=50, isolation_level=READ_COMMITTED, rack_id="r"))) == plain
    assert plain.endswith(bytes.fromhex("00000001 0001 74 00000001 00000000 0000000000000005 00000064"))


def test_brokers_before_metadata_version_1_are_asked_for_all_topics_by_an_empty_list() -> None:
    sent = b"".join(negotiated(modern.BEFORE_API_VERSIONS).send(MetadataRequest(topics=None)))
    assert sent.endswith(bytes.fromhex("6b77 00000000"))


@pytest.mark.parametrize(
    ("ranges", "version"),
    [((), 0), ((ApiVersion(api_key=18, min_version=0, max_version=2),), 2)],
)
def test_a_refused_api_versions_request_is_answered_in_version_0_and_asked_again(
    ranges: tuple[ApiVersion, ...], version: int
) -> None:
    connection = Connection(modern.DIALECT)
    assert connection.version_of(modern.API_VERSIONS, ApiVersionsRequest()) == 4
    known = ApiVersionsRequest(cluster_id="c", node_id=1)  # there is something to check
    assert connection.version_of(modern.API_VERSIONS, known) == 5
    assert b"".join(connection.send(ApiVersionsRequest())).endswith(b"\x10spark-kafkawire\x08unknown\0")
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=ranges)
    [response] = feed(connection, [response_frame(refusal, 0, 0)])
    assert response.body == refusal
    connection.use_versions(list_offered(response.body))
    sent = b"".join(connection.send(ApiVersionsRequest()))
    assert sent[6:8] == version.to_bytes(2, "big")
    answer = ApiVersionsResponse(
        error_code=0, api_keys=(ApiVersion(api_key=3, min_version=1, max_version=9),), throttle_time_ms=0
    )
    [response] = feed(connection, [response_frame(answer, version, 1)])
    connection.use_versions(list_offered(response.body))
    assert connection.version_of(modern.METADATA) == 9
    with pytest.raises(UnsupportedVersionError, match="does not offer Fetch"):
        connection.version_of(modern.FETCH)


@pytest.mark.parametrize(
    "body",
    ["0023 01 0012 0000 0002 00000000", "0023", "0023 7fffffff", "0023 00000000 00"],
    ids=["librdkafka's mock cluster", "code alone", "lying count", "more bytes"],
)
def test_a_refusal_whose_list_of_versions_makes_no_sense_is_asked_again_in_version_0(body: str) -> None:
    connection = Connection(modern.DIALECT)
    connection.send(ApiVersionsRequest())
    content = bytes.fromhex("00000000" + body)
    [response] = feed(connection, [len(content).to_bytes(4, "big") + content])
    assert response.body == ApiVersionsResponse(error_code=35, api_keys=())
    connection.use_versions(list_offered(response.body))
    assert connection.version_of(modern.API_VERSIONS) == 0


def test_the_response_to_api_versions_has_the_plain_header_in_every_version() -> None:
    frame = response_frame(ApiVersionsResponse(error_code=0, api_keys=()), 4, 77)
    assert frame == bytes.fromhex("0000000c 0000004d 0000 01 00000000 00")


@pytest.mark.parametrize(
    ("request_", "limit"),
    [
        (MetadataRequest(topics=None), 64 << 20),
        (ListOffsetsRequest(topics=()), 64 << 20),
        (ApiVersionsRequest(), 1 << 20),
        (InitProducerIdRequest(), 1 << 20),
        (fetch(batch_bytes_max=1000), 100 + 1000 + (64 << 10) + (1 << 20)),
        (fetch(), 100 + (64 << 20) + (64 << 10) + (1 << 20)),
    ],
    ids=["metadata", "list offsets", "api versions", "init producer id", "fetch", "fetch of any batch"],
)
def test_a_response_above_its_limit_is_refused_before_memory_is_taken(request_: object, limit: int) -> None:
    connection = Connection(modern.DIALECT)
    connection.send(request_)
    feed(connection, [limit.to_bytes(4, "big")])
    assert len(connection.wanted()) == limit
    connection = Connection(modern.DIALECT)
    connection.send(request_)
    tracemalloc.start()
    try:
        with pytest.raises(
            ProtocolError, match=f"announces {limit + 1} bytes, at most {limit} were expected"
        ):
            feed(connection, [(limit + 1).to_bytes(4, "big")])
        assert tracemalloc.get_traced_memory()[1] < 1 << 19
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"HTTP/1.1 400", r"b'HTTP'; is this the port of a Kafka 0\.8\+ broker\?"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "begins like TLS; does this port want kafka.security.protocol=SSL"),
        (b"\xff\xff\xff\xff", "announces -1 bytes, at most 1048576 were expected; check that this is"),
    ],
)
def test_a_peer_that_is_no_broker_is_recognized(data: bytes, hint: str) -> None:
    connection = Connection(modern.DIALECT)
    connection.send(ApiVersionsRequest())
    with pytest.raises(ProtocolError, match=hint):
        feed(connection, [data])


def test_records_are_a_view_of_the_frame() -> None:
    connection = negotiated()
    connection.send(fetch())
    records = FetchPartitionResponse(partition_index=0, error_code=0, high_watermark=7, records=b"records")
    topic = FetchTopicResponse(topic_id=TOPIC_ID, partitions=(records,))
    [response] = feed(connection, [response_frame(FetchResponse(responses=(topic,)), NEWEST_FETCH, 0)])
    [partition] = response.body.responses[0].partitions
    assert isinstance(partition.records, memoryview)
    assert partition.records.obj is not None
    assert bytes(partition.records) == b"records"
    assert "records" not in repr(response.body)


# --- Assignments of members of classic groups, and bytes of other formats ---

#: Version 1, the partitions 0 and 2 of the topic "ab", and no data of the assignor.
ASSIGNMENT: Final = bytes.fromhex("0001 00000001 0002 6162 00000002 00000000 00000002 ffffffff")


def test_topics_are_read_with_their_partitions() -> None:
    assert parse_assigned_topics(ASSIGNMENT) == (ClassicAssignedTopic(topic="ab", partitions=(0, 2)),)
    assert parse_assigned_topics(memoryview(b"")) == ()


@for_each("size", range(1, len(ASSIGNMENT) - 4))
def test_a_cut_assignment_is_of_another_format(size: int) -> None:
    assert parse_assigned_topics(ASSIGNMENT[:size]) is None


def test_a_wrong_byte_is_another_assignment_or_of_another_format() -> None:
    for location in range(len(ASSIGNMENT)):
        damaged = bytearray(ASSIGNMENT)
        damaged[location] ^= 0x80
        result = parse_assigned_topics(damaged)
        assert result is None or all(isinstance(item, ClassicAssignedTopic) for item in result)


# --- Coordinators that are looked for together ---


def test_each_key_is_in_one_of_as_few_requests() -> None:
    groups = [f"group {number}" for number in range(2_500)]
    ids = [f"id {number}" for number in range(3)]
    wanted = [
        *map(FindCoordinatorRequest.for_group, groups),
        *map(FindCoordinatorRequest.for_transaction, ids),
    ]
    together = FindCoordinatorRequest.together(wanted)
    assert [len(item.coordinator_keys) for item in together] == [1_000, 1_000, 500, 3]
    for kind, keys in ((GROUP, groups), (TRANSACTION, ids)):
        assert [key for item in together if item.key_type == kind for key in item.coordinator_keys] == keys
