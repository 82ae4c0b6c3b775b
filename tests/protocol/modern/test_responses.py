"""Responses beside their requests: what fits is read, odd as it may be, and what does not is refused."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any, Final

import pytest

from spark_kafkawire.errors import TEXT_SIZE_MAX, ProtocolError
from spark_kafkawire.protocol import modern, v07
from spark_kafkawire.protocol.api import Api, BrokerVersions, VersionRange
from spark_kafkawire.protocol.connection import Connection
from spark_kafkawire.protocol.modern import (
    admin,
    describe_configs,
    describe_groups,
    fetch,
    group_members,
    group_offsets,
    list_offsets,
    metadata,
    negotiation,
    produce,
    sasl,
    transactions,
)
from spark_kafkawire.protocol.modern.group_members import DescribedStreamsGroup
from tests.protocol.streams import feed
from tests.support.cases import for_each
from tests.support.made_messages import made
from tests.support.streams_groups import streams_group

ID: Final = uuid.UUID(int=9)
OTHER_ID: Final = uuid.UUID(int=8)
BROKER: Final = metadata.MetadataBroker(node_id=1, host="h", port=9092)


def answered(request: Any, answer: Any, version: int) -> Any:
    """The response as a connection that speaks this version gives it."""
    dialect = v07.DIALECT if type(request).__module__ == v07.__name__ else modern.DIALECT
    connection = Connection(dialect)
    api = dialect.api_of(request)
    if dialect.correlates:
        connection.use_versions(BrokerVersions({api.key: VersionRange(version, version)}))
    connection.send(request)
    [came] = feed(connection, [b"".join(dialect.write_response(api, answer, version))])
    return came.body


def response(api: Api, **content: Any) -> Any:
    assert api.response is not None
    return made(api.response, content)


def fetching(partition: int = 0) -> Any:
    asked = {"partition": partition, "partition_max_bytes": 100}
    return made(fetch.FetchRequest, {"topics": [{"topic": "t", "topic_id": ID, "partitions": [asked]}]})


def fetched(topic_id: uuid.UUID | None = None, **changes: Any) -> Any:
    partitions = [{"records": b"", **changes}]
    named = {"topic": "t"} if topic_id is None else {"topic": "", "topic_id": topic_id}
    return response(modern.FETCH, responses=[{**named, "partitions": partitions}])


PRODUCING: Final = made(
    produce.ProduceRequest,
    {"acks": 1, "timeout_ms": 1, "topic_data": [{"name": "t", "partition_data": [{"records": b""}]}]},
)


def produced(*topics: str, **changes: Any) -> Any:
    result = [{"name": topic, "partition_responses": [{"base_offset": 0, **changes}]} for topic in topics]
    return response(modern.PRODUCE, responses=result)


def listing(time: int) -> Any:
    asked = [{"name": "t", "partitions": [{"timestamp": time}]}]
    return made(list_offsets.ListOffsetsRequest, {"topics": asked})


def listed(*partitions: int, topic: str = "t", **changes: Any) -> Any:
    result = [{"partition_index": partition, "offset": 0, **changes} for partition in partitions]
    return response(modern.LIST_OFFSETS, topics=[{"name": topic, "partitions": result}])


def asking(*names: str) -> Any:
    return made(metadata.MetadataRequest, {"topics": [{"name": name} for name in names]})


def reported(*names: str, brokers: tuple[Any, ...] = (BROKER,), **changes: Any) -> Any:
    topics = [{"name": name, "partitions": [{"leader_id": 1, **changes}]} for name in names]
    return response(modern.METADATA, brokers=brokers, topics=topics)


COORDINATING: Final = group_offsets.FindCoordinatorRequest.for_group("g")


def coordinated(**changes: Any) -> Any:
    result = {"key": "g", "node_id": 1, "host": "h", "port": 9092, **changes}
    return response(modern.FIND_COORDINATOR, coordinators=[result])


def committed(topic: str = "t", group: str = "g", **changes: Any) -> Any:
    topics = [{"name": topic, "partitions": [{"committed_offset": 1, **changes}]}]
    return response(modern.OFFSET_FETCH, groups=[{"group_id": group, "topics": topics}])


COMMITTED_OF: Final = group_offsets.OffsetFetchRequest.for_group(
    "g", (group_offsets.OffsetFetchTopic(name="t", partition_indexes=(0,)),)
)
_COMMITTED: Final = [{"name": "t", "partitions": [{"committed_offset": 1}]}]
COMMITTING: Final = made(group_offsets.OffsetCommitRequest, {"group_id": "g", "topics": _COMMITTED})


def commits(topic: str, partition: int, api: Api = modern.OFFSET_COMMIT) -> Any:
    return response(api, topics=[{"name": topic, "partitions": [{"partition_index": partition}]}])


CONFIGURED: Final = describe_configs.DescribeConfigsRequest(
    resources=(
        describe_configs.DescribedResource(
            resource_type=describe_configs.TOPIC_RESOURCE,
            resource_name="t",
            configuration_keys=("cleanup.policy",),
        ),
    )
)


def configured(*topics: str, names: tuple[str, ...] = ()) -> Any:
    configs = [{"name": name, "value": "compact"} for name in names]
    result = [{"resource_type": 2, "resource_name": topic, "configs": configs} for topic in topics]
    return response(modern.DESCRIBE_CONFIGS, results=result)


def creating(count: int) -> Any:
    topic = {"name": "t", "num_partitions": count, "replication_factor": -1}
    return made(admin.CreateTopicsRequest, {"topics": [topic], "timeout_ms": 1})


def created(*names: str, **changes: Any) -> Any:
    return response(modern.CREATE_TOPICS, topics=[{"name": name, **changes} for name in names])


def grouped(api: Api, *names: str, members: tuple[str, ...] = ()) -> Any:
    of_each = [{"member_id": item, "member_epoch": 1} for item in members]
    return response(api, groups=[{"group_id": name, "members": of_each} for name in names])


def streamed(*groups: DescribedStreamsGroup) -> Any:
    return response(modern.STREAMS_GROUP_DESCRIBE, groups=groups)


def identity(producer_id: int, epoch: int, error_code: int = 0, api: Api = modern.INIT_PRODUCER_ID) -> Any:
    return response(api, error_code=error_code, producer_id=producer_id, producer_epoch=epoch)


ADDING: Final = transactions.AddPartitionsToTxnRequest(
    v3_and_below_transactional_id="x",
    v3_and_below_producer_id=1,
    v3_and_below_producer_epoch=0,
    v3_and_below_topics=(transactions.AddPartitionsToTxnTopic(name="t", partitions=(0, 1)),),
)


def added(topic: str, *partitions: int) -> Any:
    results = [{"partition_index": index} for index in partitions]
    result = [{"name": topic, "results_by_partition": results}]
    return response(modern.ADD_PARTITIONS_TO_TXN, results_by_topic_v3_and_below=result)


_OF_TXN: Final = {"transactional_id": "x", "group_id": "g", "producer_id": 1, "producer_epoch": 0}
OFFSETS_IN_TXN: Final = replace(
    made(transactions.TxnOffsetCommitRequest, {**_OF_TXN, "topics": _COMMITTED}), transaction_version=2
)
ENDING: Final = transactions.EndTxnRequest(
    transactional_id="x", producer_id=1, producer_epoch=0, committed=True, transaction_version=2
)
LISTING: Final = transactions.ListTransactionsRequest()
DESCRIBING_TXN: Final = transactions.DescribeTransactionsRequest(transactional_ids=("x",))


def listed_transactions(*ids: str, producer_id: int = 1) -> Any:
    result = {"producer_id": producer_id, "transaction_state": "Ongoing"}
    states = [{"transactional_id": item, **result} for item in ids]
    return response(modern.LIST_TRANSACTIONS, transaction_states=states)


def described_transactions(*ids: str, **changes: Any) -> Any:
    result = {"transaction_timeout_ms": 1, "transaction_start_time_ms": 1, "producer_id": 1, **changes}
    states = [{"transactional_id": item, "transaction_state": "Ongoing", **result} for item in ids]
    return response(modern.DESCRIBE_TRANSACTIONS, transaction_states=states)


def sizing(*indexes: int) -> Any:
    """Ask for partitions of a topic; for all without any."""
    topics = [{"topic": "t", "partitions": indexes}] if indexes else None
    return made(admin.DescribeLogDirsRequest, {"topics": topics})


def sized(*indexes: int, topic: str = "t", size: int = 0, future: bool = False, **changes: Any) -> Any:
    replica = {"partition_size": size, "is_future_key": future}
    replicas = [{"partition_index": index, **replica} for index in indexes]
    return {"log_dir": "/a", "topics": [{"name": topic, "partitions": replicas}], **changes}


def disks(*found: Any) -> Any:
    return response(modern.DESCRIBE_LOG_DIRS, results=found)


PRODUCERS_OF: Final = admin.DescribeProducersRequest(
    topics=(admin.ProducersTopic(name="t", partition_indexes=(0,)),)
)


def producers(*ids: int, topic: str = "t", **changes: Any) -> Any:
    states = [{"producer_id": item, **changes} for item in ids]
    topics = [{"name": topic, "partitions": [{"active_producers": states}]}]
    return response(modern.DESCRIBE_PRODUCERS, topics=topics)


def offers(*ranges: tuple[int, int, int], error_code: int = 0) -> Any:
    names = ("api_key", "min_version", "max_version")
    keys = [dict(zip(names, item, strict=True)) for item in ranges]
    return response(modern.API_VERSIONS, error_code=error_code, api_keys=keys)


DESCRIBING: Final = describe_groups.DescribeGroupsRequest(groups=("g",))
LEADING: Final = group_members.ConsumerGroupDescribeRequest(group_ids=("g",))
ONE_MEMBER: Final = streams_group("g", "m", "t")
STREAMING: Final = group_members.StreamsGroupDescribeRequest(group_ids=("g",))
SHARING: Final = group_members.ShareGroupDescribeRequest(group_ids=("g",))
VERSIONS: Final = negotiation.ApiVersionsRequest()
IDENTIFYING: Final = produce.InitProducerIdRequest()


def token(**changes: Any) -> Any:
    times = {"issue_timestamp_ms": 5, "expiry_timestamp_ms": 6, "max_timestamp_ms": 7}
    return response(
        modern.CREATE_DELEGATION_TOKEN, **{**times, "token_id": "id", "hmac": b"secret", **changes}
    )


MAKING: Final = admin.CreateDelegationTokenRequest()
RENEWING: Final = admin.RenewDelegationTokenRequest(hmac=b"secret")
EXPIRING: Final = admin.ExpireDelegationTokenRequest(hmac=b"secret")
LOGGING_IN: Final = sasl.SaslAuthenticateRequest(auth_bytes=b"")
LONG: Final = "x" * 10_000
TWO_FETCHES: Final = v07.MultiFetchRequest((v07.FetchRequest("t", 0, 0, 9), v07.FetchRequest("t", 1, 0, 9)))
NOTHING_07: Final = v07.FetchResponse(0, b"")


@for_each(
    ("request_", "response", "version", "fault"),
    [
        (VERSIONS, offers((1, 0, 3), (1, 0, 4)), 2, "it contains 1 twice"),
        (VERSIONS, offers((1, 3, 2)), 2, "it gives the highest version of API 1 2, but the minimum is 3"),
        (VERSIONS, offers((1, -1, 2)), 2, "it gives the lowest version of API 1 -1, but the minimum is 0"),
        (asking("t"), reported("u"), 9, "it contains u, but t was requested"),
        (asking("t"), reported("t", "t"), 9, "it contains t twice"),
        (metadata.MetadataRequest(topics=None), reported("t", "t"), 9, "it contains t twice"),
        (metadata.MetadataRequest(topics=None), reported("a\nb"), 9, r"'a\nb', which is not a topic name"),
        (metadata.MetadataRequest(topics=None), reported("x" * 256), 9, "which is not a topic name"),
        (
            group_offsets.OffsetFetchRequest.for_group("g", None),
            committed(topic=""),
            8,
            "it gives a topic the name '', which is not a topic name",
        ),
        (asking("t"), reported("t", brokers=(BROKER, BROKER)), 9, "it contains 1 twice"),
        (
            asking("t"),
            reported("t", brokers=(replace(BROKER, port=0),)),
            9,
            "it gives broker 1 (h) the port 0, and ports are 1 to 65535",
        ),
        (asking("t"), reported("t", brokers=(replace(BROKER, port=65536),)), 9, "the port 65536"),
        (asking("t"), reported("t", brokers=(replace(BROKER, host=""),)), 9, "'', which is not a host name"),
        (asking("t"), reported("t", brokers=(replace(BROKER, host="h" * 256),)), 9, "… (256 characters)'"),
        (asking("t"), reported("t", brokers=(replace(BROKER, host="a\nb\0"),)), 9, r"the host 'a\nb\x00'"),
        (asking("t"), reported("t", brokers=(replace(BROKER, node_id=-1),)), 9, "the broker id -1"),
        (asking("t"), reported("t", partition_index=-7), 9, "it gives the partition -7 of t"),
        (asking("t"), reported("t", leader_id=-2), 9, "it gives the leader -2 of t"),
        (asking("t"), reported("t", leader_epoch=-2), 9, "it gives the leader epoch -2 of t"),
        (fetching(), fetched(partition_index=1), 12, "it contains t 1, but t 0 was requested"),
        (fetching(), fetched(high_watermark=-2), 12, "the high watermark -2"),
        (fetching(), fetched(last_stable_offset=-2), 12, "the last stable offset -2"),
        (fetching(), fetched(log_start_offset=-2), 12, "the log start offset -2"),
        (
            fetching(),
            fetched(aborted_transactions=(fetch.AbortedTransaction(producer_id=-1, first_offset=0),)),
            12,
            "the producer id of an aborted transaction -1",
        ),
        (fetching(), fetched(OTHER_ID), 13, f"it contains {OTHER_ID} 0, but {ID} 0 was requested"),
        (fetching(), fetch.FetchResponse(responses=()), 12, "it lacks t 0, which was requested"),
        (PRODUCING, produced("u"), 9, "it contains u 0, but t 0 was requested"),
        (PRODUCING, produced("t", "t"), 9, "it contains t 0 twice"),
        (PRODUCING, produced(), 9, "it lacks t 0, which was requested, and contains nothing"),
        (PRODUCING, produced("t", base_offset=-1), 9, "the base offset -1 of t"),
        (
            replace(PRODUCING, topic_data=(replace(PRODUCING.topic_data[0], topic_id=uuid.UUID(int=7)),)),
            response(modern.PRODUCE, responses=[{"topic_id": uuid.UUID(int=9), "partition_responses": [{}]}]),
            13,
            f"it contains {uuid.UUID(int=9)} 0, but t 0 was requested",
        ),
        (
            replace(COMMITTING, topics=(replace(COMMITTING.topics[0], topic_id=uuid.UUID(int=7)),)),
            response(modern.OFFSET_COMMIT, topics=[{"topic_id": uuid.UUID(int=9), "partitions": [{}]}]),
            10,
            f"it contains {uuid.UUID(int=9)} 0, but t 0 was requested",
        ),
        (IDENTIFYING, identity(-1, 0), 4, "it gives the producer id -1, but the minimum is 0"),
        (IDENTIFYING, identity(0, -1), 4, "it gives the producer epoch -1, but the minimum is 0"),
        (ADDING, added("t", 0), 3, "it lacks t 1, which was requested"),
        (ADDING, added("u", 0, 1), 3, "it contains u 0, but t 0, t 1 was requested"),
        (
            OFFSETS_IN_TXN,
            commits("t", 1, modern.TXN_OFFSET_COMMIT),
            5,
            "it contains t 1, but t 0 was requested",
        ),
        (ENDING, identity(-1, 0, api=modern.END_TXN), 5, "it gives the producer id -1, but the minimum is 0"),
        (
            ENDING,
            identity(1, -1, api=modern.END_TXN),
            5,
            "it gives the producer epoch -1, but the minimum is 0",
        ),
        (
            replace(ENDING, producer_epoch=7),
            identity(1, 6, api=modern.END_TXN),
            5,
            "it gives the producer epoch 6, but the minimum is 7",
        ),
        (LISTING, listed_transactions("x", "x"), 2, "it contains x twice"),
        (LISTING, listed_transactions("x", producer_id=-1), 2, "it gives the producer id -1 of x"),
        (DESCRIBING_TXN, described_transactions("y"), 0, "it contains y, but x was requested"),
        (DESCRIBING_TXN, described_transactions(), 0, "it lacks x"),
        (DESCRIBING_TXN, described_transactions("x", producer_id=-1), 0, "the producer id -1 of x"),
        (DESCRIBING_TXN, described_transactions("x", producer_epoch=-2), 0, "the producer epoch -2 of x"),
        (sizing(), disks(sized(0), sized(0, log_dir="/b")), 4, "it contains t 0 False twice"),
        (sizing(), disks(sized(0), sized(1)), 4, "it contains /a twice"),
        (sizing(), disks(sized(-1)), 4, "it gives the partition -1 of t"),
        (sizing(), disks(sized(0, size=-1)), 4, "it gives the size -1 of t 0, but the minimum is 0"),
        (sizing(), disks(sized(0, topic="")), 4, "'', which is not a topic name"),
        (PRODUCERS_OF, producers(topic="u"), 0, "it contains u 0, but t 0 was requested"),
        (PRODUCERS_OF, producers(1, 1), 0, "it contains t 0 1 twice"),
        (PRODUCERS_OF, producers(-1), 0, "it gives the producer id -1 of t 0"),
        (PRODUCERS_OF, producers(1, producer_epoch=-2), 0, "the producer epoch -2 of t 0"),
        (PRODUCERS_OF, producers(1, last_sequence=-2), 0, "the last sequence -2 of t 0"),
        (PRODUCERS_OF, producers(1, current_txn_start_offset=-2), 0, "the start of a transaction -2 of t 0"),
        (listing(-1), listed(0, topic="u"), 8, "it contains u 0, but t 0 was requested"),
        (listing(-1), listed(0, 0), 8, "it contains t 0 twice"),
        (listing(-1), listed(), 8, "it lacks t 0, which was requested, and contains nothing"),
        (listing(-1), listed(0, offset=-1), 8, "it gives the offset -1 of t 0, but the minimum is 0"),
        (listing(5), listed(0, offset=-2), 8, "it gives the offset -2 of t 0, but the minimum is -1"),
        (listing(5), listed(0, timestamp=-2), 8, "it gives the timestamp -2 of t 0"),
        (
            listing(5),
            listed(0, offset=-1, old_style_offsets=(3, 2)),
            0,
            "it gives 2 offsets of t 0, but 1 was requested",
        ),
        (COORDINATING, coordinated(key="h"), 4, "it contains h, but g was requested"),
        (COORDINATING, coordinated(port=0), 4, "the port 0"),
        (COORDINATING, coordinated(node_id=-1), 4, "the broker id -1"),
        (
            COORDINATING,
            group_offsets.FindCoordinatorResponse(node_id=1, host="", port=9092),
            3,
            "the host '', which is not a host name",
        ),
        (COMMITTED_OF, committed(group="h"), 8, "it contains h, but g was requested"),
        (COMMITTED_OF, committed(topic="u"), 8, "it contains u 0, but t 0 was requested"),
        (COMMITTED_OF, committed(committed_offset=-2), 8, "it gives the committed offset -2 of t"),
        (COMMITTING, commits("u", 0), 8, "it contains u 0, but t 0 was requested"),
        (COMMITTING, commits("t", 1), 8, "it contains t 1, but t 0 was requested"),
        (creating(3), created("u"), 7, "it contains u, but t was requested"),
        (creating(3), created(), 7, "it lacks t"),
        (creating(3), created("t", num_partitions=2), 7, "it gives the new topic 2 partitions, but 3 was"),
        (CONFIGURED, configured("u"), 4, "it contains 2 u, but 2 t was requested"),
        (CONFIGURED, configured("t", "t"), 4, "it contains 2 t twice"),
        (CONFIGURED, configured(), 4, "it lacks 2 t, which was requested, and contains nothing"),
        (CONFIGURED, configured("t", names=("a",)), 0, "it contains a, but cleanup.policy was requested"),
        (CONFIGURED, configured("t", names=("cleanup.policy",) * 2), 2, "it contains cleanup.policy twice"),
        (DESCRIBING, grouped(modern.DESCRIBE_GROUPS, "h"), 5, "it contains h, but g was requested"),
        (DESCRIBING, grouped(modern.DESCRIBE_GROUPS, "g", "g"), 5, "it contains g twice"),
        (DESCRIBING, grouped(modern.DESCRIBE_GROUPS, "g", members=("m", "m")), 5, "it contains g m twice"),
        (
            LEADING,
            grouped(modern.CONSUMER_GROUP_DESCRIBE),
            1,
            "it lacks g, which was requested, and contains nothing",
        ),
        (
            SHARING,
            grouped(modern.SHARE_GROUP_DESCRIBE),
            1,
            "it lacks g, which was requested, and contains nothing",
        ),
        (SHARING, grouped(modern.SHARE_GROUP_DESCRIBE, "g", members=("m", "m")), 1, "it contains g m twice"),
        (STREAMING, streamed(), 0, "it lacks g, which was requested, and contains nothing"),
        (
            STREAMING,
            streamed(replace(ONE_MEMBER, members=ONE_MEMBER.members * 2)),
            0,
            "it contains g m twice",
        ),
        (
            LOGGING_IN,
            sasl.SaslAuthenticateResponse(error_code=0, auth_bytes=b"", session_lifetime_ms=-1),
            2,
            "the session lifetime -1",
        ),
        (MAKING, token(token_id=""), 3, "it contains a token without an id or an HMAC"),
        (MAKING, token(hmac=b""), 3, "it contains a token without an id or an HMAC"),
        (MAKING, token(issue_timestamp_ms=-1), 3, "it gives the issue timestamp -1, but the minimum is 0"),
        (MAKING, token(expiry_timestamp_ms=4), 3, "it gives the expiry timestamp 4, but the minimum is 5"),
        (MAKING, token(max_timestamp_ms=5), 3, "it gives the max timestamp 5, but the minimum is 6"),
        (
            RENEWING,
            admin.RenewDelegationTokenResponse(error_code=0, expiry_timestamp_ms=-1, throttle_time_ms=0),
            2,
            "it gives the expiry timestamp -1",
        ),
        (
            EXPIRING,
            admin.ExpireDelegationTokenResponse(error_code=0, expiry_timestamp_ms=-1, throttle_time_ms=0),
            2,
            "it gives the expiry timestamp -1",
        ),
        (TWO_FETCHES, v07.MultiFetchResponse(0, (NOTHING_07,)), 0, "2 partitions were requested and 1 came"),
        (v07.OffsetsRequest("t", 0, -1, 2), v07.OffsetsResponse(0, ()), 0, "the answer is empty"),
        (v07.OffsetsRequest("t", 0, -1, 2), v07.OffsetsResponse(0, (1, 2)), 0, "is not newest first"),
        (v07.OffsetsRequest("t", 0, -1, 2), v07.OffsetsResponse(0, (2, -1)), 0, "the offset -1"),
    ],
)
def test_refuse_a_response_that_does_not_match_its_request(
    request_: Any, response: Any, version: int, fault: str
) -> None:
    with pytest.raises(ProtocolError) as raised:
        answered(request_, response, version)
    assert fault in str(raised.value)
    assert " response does not match its request: " in str(raised.value)


@for_each(
    ("request_", "response", "version"),
    [
        pytest.param(
            fetching(), fetch.FetchResponse(responses=(), throttle_time_ms=9), 12, id="throttled fetch"
        ),
        pytest.param(fetching(), fetch.FetchResponse(responses=(), error_code=70), 12, id="no fetch session"),
        pytest.param(
            fetching(), fetched(error_code=1, high_watermark=-1), 12, id="a fetch out of the log's range"
        ),
        pytest.param(fetching(), fetched(high_watermark=-1), 12, id="a leader that was just elected"),
        pytest.param(asking("t", "u"), reported("t"), 9, id="a topic that the user may not see"),
        pytest.param(asking("t"), reported("t", leader_id=-1), 9, id="a partition without leader"),
        pytest.param(asking("t"), reported("t", brokers=()), 9, id="a broker that knows no broker yet"),
        pytest.param(asking(), reported("t"), 0, id="all topics in version 0"),
        pytest.param(asking(), reported("t"), 12, id="all topics, where noida-db is asked for none"),
        pytest.param(listing(5), listed(0, offset=-1), 8, id="no record of that age"),
        pytest.param(listing(-1), listed(0, offset=-1, error_code=6), 8, id="another leader, and no offset"),
        pytest.param(
            PRODUCING, produced("t", base_offset=-1, error_code=46), 9, id="records that were there before"
        ),
        pytest.param(IDENTIFYING, identity(-1, -1, 15), 4, id="no identity yet"),
        pytest.param(sizing(0, 1), disks(sized(0)), 4, id="a replica that the broker does not hold"),
        pytest.param(sizing(0), disks(sized(0, 1)), 4, id="all replicas, where noida-db is asked for one"),
        pytest.param(
            sizing(0),
            disks(sized(0), sized(0, log_dir="/b", future=True)),
            4,
            id="a replica that moves to another directory",
        ),
        pytest.param(ENDING, identity(-1, -1, 90, api=modern.END_TXN), 5, id="a producer that was fenced"),
        pytest.param(
            replace(ENDING, producer_epoch=2**15 - 2),
            identity(2, 0, api=modern.END_TXN),
            5,
            id="another producer, where epochs end",
        ),
        pytest.param(
            DESCRIBING_TXN,
            described_transactions("x", producer_id=-1, producer_epoch=-1, error_code=105),
            0,
            id="a transactional id without a transaction",
        ),
        pytest.param(
            asking("t"),
            reported("t", brokers=(replace(BROKER, host="h" * 255),)),
            9,
            id="a host of as many letters as a name may have",
        ),
        pytest.param(
            COORDINATING,
            group_offsets.FindCoordinatorResponse(error_code=15),
            3,
            id="no coordinator at the moment",
        ),
        pytest.param(
            COORDINATING, coordinated(node_id=-1, host="", port=-1, error_code=15), 4, id="and in version 4"
        ),
        pytest.param(
            COMMITTED_OF,
            group_offsets.OffsetFetchResponse(error_code=16),
            7,
            id="a group that another broker coordinates",
        ),
        pytest.param(creating(-1), created("t", num_partitions=4), 7, id="as many partitions as is usual"),
        pytest.param(creating(3), created("t"), 4, id="a topic without a count of partitions"),
        pytest.param(VERSIONS, offers(error_code=35), 0, id="a broker before this version"),
        pytest.param(v07.OffsetsRequest("t", 0, 5, 2), v07.OffsetsResponse(0, ()), 0, id="no segment so old"),
        pytest.param(
            v07.OffsetsRequest("t", 0, -1, 2), v07.OffsetsResponse(0, (7, 7)), 0, id="a segment not flushed"
        ),
    ],
)
def test_odd_responses_of_honest_brokers_are_read(request_: Any, response: Any, version: int) -> None:
    assert answered(request_, response, version) == response


def test_what_a_peer_says_of_something_else_stays_one_short_line() -> None:
    names = tuple(f"{index}\n{LONG}" for index in range(1000))
    with pytest.raises(ProtocolError) as raised:
        answered(asking(*(name[:200] for name in names)), reported("\x1b[2J\0" + LONG), 9)
    line = str(raised.value)
    assert line.isprintable()
    assert len(line) < 6 * TEXT_SIZE_MAX
    assert "and 997 more was requested" in line


def test_every_response_of_every_dialect_is_compared_with_its_request() -> None:
    for api in (*modern.DIALECT.apis, *v07.DIALECT.apis):
        assert (api.response is None) == (api.faults is None), api.name
