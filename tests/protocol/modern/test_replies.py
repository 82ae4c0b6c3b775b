"""Replies beside their requests: what fits is read, odd as it may be, and what does not is refused."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any, Final

import pytest

from spark_kafkawire.errors import SHOWN_SIZE_MAX, ProtocolError
from spark_kafkawire.protocol import modern, v07
from spark_kafkawire.protocol.api import VersionRange
from spark_kafkawire.protocol.connection import Connection
from spark_kafkawire.protocol.modern import (
    add_to_txn,
    api_versions,
    consumer_group_describe,
    create_topics,
    describe_configs,
    describe_groups,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    sasl,
    txn_offset_commit,
)
from spark_kafkawire.protocol.primitives import join
from spark_kafkawire.protocol.versions import BrokerVersions
from tests.protocol.streams import feed

ID: Final = uuid.UUID(int=9)
OTHER_ID: Final = uuid.UUID(int=8)
BROKER: Final = metadata.MetadataBroker(node_id=1, host="h", port=9092)


def answered(request: Any, reply: Any, version: int) -> Any:
    """The reply as a connection that speaks this version gives it."""
    dialect = v07.DIALECT if type(request).__module__ == v07.__name__ else modern.DIALECT
    connection = Connection(dialect)
    api = dialect.api_of(request)
    if dialect.correlates:
        connection.negotiated(BrokerVersions({api.key: VersionRange(version, version)}))
    connection.send(request)
    [came] = feed(connection, [join(dialect.write_reply(api, reply, version))])
    return came.body


def fetching(partition: int = 0) -> fetch.FetchRequest:
    asked = fetch.FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=100)
    topic = fetch.FetchTopic(topic="t", topic_id=ID, partitions=(asked,))
    return fetch.FetchRequest(max_wait_ms=0, min_bytes=1, topics=(topic,))


def fetched(**changes: Any) -> fetch.FetchReply:
    partition = fetch.FetchPartitionReply(
        **{"partition_index": 0, "error_code": 0, "high_watermark": 0, "records": b"", **changes}
    )
    return fetch.FetchReply(responses=(fetch.FetchTopicReply(topic="t", partitions=(partition,)),))


def fetched_by_id(topic_id: uuid.UUID) -> fetch.FetchReply:
    [topic] = fetched().responses
    return fetch.FetchReply(responses=(replace(topic, topic="", topic_id=topic_id),))


PRODUCING: Final = produce.ProduceRequest(
    acks=1,
    timeout_ms=1,
    topic_data=(
        produce.ProduceTopic(name="t", partition_data=(produce.ProducePartition(index=0, records=b""),)),
    ),
)


def produced(*topics: str, **changes: Any) -> produce.ProduceReply:
    partition = produce.ProducePartitionReply(**{"index": 0, "error_code": 0, "base_offset": 0, **changes})
    return produce.ProduceReply(
        responses=tuple(
            produce.ProduceTopicReply(name=topic, partition_responses=(partition,)) for topic in topics
        )
    )


def listing(time: int) -> list_offsets.ListOffsetsRequest:
    asked = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=time)
    return list_offsets.ListOffsetsRequest(
        topics=(list_offsets.ListOffsetsTopic(name="t", partitions=(asked,)),)
    )


def listed(*partitions: int, topic: str = "t", **changes: Any) -> list_offsets.ListOffsetsReply:
    found = tuple(
        list_offsets.ListOffsetsPartitionReply(
            **{"partition_index": partition, "error_code": 0, "offset": 0, **changes}
        )
        for partition in partitions
    )
    return list_offsets.ListOffsetsReply(
        topics=(list_offsets.ListOffsetsTopicReply(name=topic, partitions=found),)
    )


def asking(*names: str) -> metadata.MetadataRequest:
    return metadata.MetadataRequest(topics=tuple(metadata.MetadataRequestTopic(name=name) for name in names))


def told(*names: str, brokers: tuple[Any, ...] = (BROKER,), **changes: Any) -> metadata.MetadataReply:
    partition = metadata.MetadataPartition(
        **{
            "error_code": 0,
            "partition_index": 0,
            "leader_id": 1,
            "replica_nodes": (),
            "isr_nodes": (),
            **changes,
        }
    )
    topics = tuple(metadata.MetadataTopic(error_code=0, name=name, partitions=(partition,)) for name in names)
    return metadata.MetadataReply(brokers=brokers, topics=topics)


COORDINATOR: Final = find_coordinator.Coordinator(key="g", node_id=1, host="h", port=9092, error_code=0)
COORDINATING: Final = find_coordinator.FindCoordinatorRequest.for_group("g")


def coordinated(**changes: Any) -> find_coordinator.FindCoordinatorReply:
    return find_coordinator.FindCoordinatorReply(coordinators=(replace(COORDINATOR, **changes),))


def committed(topic: str = "t", group: str = "g", **changes: Any) -> offset_fetch.OffsetFetchReply:
    partition = offset_fetch.OffsetFetchPartitionReply(
        **{"partition_index": 0, "committed_offset": 1, "error_code": 0, **changes}
    )
    topics = (offset_fetch.OffsetFetchTopicReply(name=topic, partitions=(partition,)),)
    return offset_fetch.OffsetFetchReply(
        groups=(offset_fetch.OffsetFetchGroupReply(group_id=group, topics=topics, error_code=0),)
    )


COMMITTED_OF: Final = offset_fetch.OffsetFetchRequest.for_group(
    "g", (offset_fetch.OffsetFetchTopic(name="t", partition_indexes=(0,)),)
)
COMMITTING: Final = offset_commit.OffsetCommitRequest(
    group_id="g",
    topics=(
        offset_commit.OffsetCommitTopic(
            name="t",
            partitions=(offset_commit.OffsetCommitPartition(partition_index=0, committed_offset=1),),
        ),
    ),
)


def commits(topic: str, partition: int) -> offset_commit.OffsetCommitReply:
    told_of = offset_commit.OffsetCommitPartitionReply(partition_index=partition, error_code=0)
    return offset_commit.OffsetCommitReply(
        topics=(offset_commit.OffsetCommitTopicReply(name=topic, partitions=(told_of,)),)
    )


CONFIGURED = describe_configs.DescribeConfigsRequest(
    resources=(
        describe_configs.DescribedResource(
            resource_type=describe_configs.TOPIC_RESOURCE,
            resource_name="t",
            configuration_keys=("cleanup.policy",),
        ),
    )
)


def configured(*topics: str, names: tuple[str, ...] = ()) -> describe_configs.DescribeConfigsReply:
    configs = tuple(
        describe_configs.Config(name=name, value="compact", read_only=False, is_sensitive=False)
        for name in names
    )
    return describe_configs.DescribeConfigsReply(
        results=tuple(
            describe_configs.ResourceConfigs(
                error_code=0, error_message=None, resource_type=2, resource_name=topic, configs=configs
            )
            for topic in topics
        )
    )


def creating(count: int) -> create_topics.CreateTopicsRequest:
    topic = create_topics.CreatableTopic(name="t", num_partitions=count, replication_factor=-1)
    return create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=1)


def created(*names: str, **changes: Any) -> create_topics.CreateTopicsReply:
    topics = tuple(
        create_topics.CreatedTopic(**{"name": name, "error_code": 0, "error_message": None, **changes})
        for name in names
    )
    return create_topics.CreateTopicsReply(topics=topics)


def described(*names: str, members: int = 0) -> describe_groups.DescribeGroupsReply:
    member = describe_groups.GroupMember(
        member_id="m", client_id="", client_host="", member_metadata=b"", member_assignment=b""
    )
    return describe_groups.DescribeGroupsReply(
        groups=tuple(
            describe_groups.DescribedGroup(
                error_code=0,
                group_id=name,
                group_state="",
                protocol_type="",
                protocol_data="",
                members=(member,) * members,
            )
            for name in names
        )
    )


def led(*names: str) -> consumer_group_describe.ConsumerGroupDescribeReply:
    return consumer_group_describe.ConsumerGroupDescribeReply(
        groups=tuple(
            consumer_group_describe.DescribedConsumerGroup(
                error_code=0,
                group_id=name,
                group_state="",
                group_epoch=0,
                assignment_epoch=0,
                assignor_name="",
                members=(),
            )
            for name in names
        )
    )


def identity(producer_id: int, epoch: int, error_code: int = 0) -> init_producer_id.InitProducerIdReply:
    return init_producer_id.InitProducerIdReply(
        throttle_time_ms=0, error_code=error_code, producer_id=producer_id, producer_epoch=epoch
    )


ADDING: Final = add_to_txn.AddPartitionsToTxnRequest(
    v3_and_below_transactional_id="x",
    v3_and_below_producer_id=1,
    v3_and_below_producer_epoch=0,
    v3_and_below_topics=(add_to_txn.AddPartitionsToTxnTopic(name="t", partitions=(0, 1)),),
)


def added(topic: str, *partitions: int) -> add_to_txn.AddPartitionsToTxnReply:
    results = tuple(
        add_to_txn.AddPartitionsToTxnPartitionReply(partition_index=index, partition_error_code=0)
        for index in partitions
    )
    told_of = add_to_txn.AddPartitionsToTxnTopicReply(name=topic, results_by_partition=results)
    return add_to_txn.AddPartitionsToTxnReply(throttle_time_ms=0, results_by_topic_v3_and_below=(told_of,))


OFFSETS_IN_TXN: Final = txn_offset_commit.TxnOffsetCommitRequest(
    transactional_id="x",
    group_id="g",
    producer_id=1,
    producer_epoch=0,
    topics=(
        txn_offset_commit.TxnOffsetCommitTopic(
            name="t",
            partitions=(txn_offset_commit.TxnOffsetCommitPartition(partition_index=0, committed_offset=1),),
        ),
    ),
    transaction_version=2,
)


def committed_in_txn(topic: str, partition: int) -> txn_offset_commit.TxnOffsetCommitReply:
    told_of = txn_offset_commit.TxnOffsetCommitPartitionReply(partition_index=partition, error_code=0)
    topic_reply = txn_offset_commit.TxnOffsetCommitTopicReply(name=topic, partitions=(told_of,))
    return txn_offset_commit.TxnOffsetCommitReply(throttle_time_ms=0, topics=(topic_reply,))


ENDING: Final = end_txn.EndTxnRequest(
    transactional_id="x", producer_id=1, producer_epoch=0, committed=True, transaction_version=2
)


def ended(producer_id: int, epoch: int, error_code: int = 0) -> end_txn.EndTxnReply:
    return end_txn.EndTxnReply(
        throttle_time_ms=0, error_code=error_code, producer_id=producer_id, producer_epoch=epoch
    )


LISTING: Final = list_transactions.ListTransactionsRequest()
DESCRIBING_TXN: Final = list_transactions.DescribeTransactionsRequest(transactional_ids=("x",))


def listed_transactions(*ids: str, producer_id: int = 1) -> list_transactions.ListTransactionsReply:
    found = tuple(
        list_transactions.ListedTransaction(
            transactional_id=each, producer_id=producer_id, transaction_state="Ongoing"
        )
        for each in ids
    )
    return list_transactions.ListTransactionsReply(
        throttle_time_ms=0, error_code=0, unknown_state_filters=(), transaction_states=found
    )


def described_transactions(*ids: str, **changes: Any) -> list_transactions.DescribeTransactionsReply:
    told_of = {
        "error_code": 0,
        "transaction_state": "Ongoing",
        "transaction_timeout_ms": 1,
        "transaction_start_time_ms": 1,
        "producer_id": 1,
        "producer_epoch": 0,
        "topics": (),
    }
    found = tuple(
        list_transactions.DescribedTransaction(**{**told_of, "transactional_id": each, **changes})
        for each in ids
    )
    return list_transactions.DescribeTransactionsReply(throttle_time_ms=0, transaction_states=found)


def offers(*ranges: tuple[int, int, int], error_code: int = 0) -> api_versions.ApiVersionsReply:
    return api_versions.ApiVersionsReply(
        error_code=error_code,
        api_keys=tuple(
            api_versions.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, low, high in ranges
        ),
    )


DESCRIBING: Final = describe_groups.DescribeGroupsRequest(groups=("g",))
LEADING: Final = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=("g",))
VERSIONS: Final = api_versions.ApiVersionsRequest()
IDENTIFYING: Final = init_producer_id.InitProducerIdRequest()
LOGGING_IN: Final = sasl.SaslAuthenticateRequest(auth_bytes=b"")
LONG: Final = "x" * 10_000
TWO_FETCHES: Final = v07.MultiFetchRequest((v07.FetchRequest("t", 0, 0, 9), v07.FetchRequest("t", 1, 0, 9)))
NOTHING_07: Final = v07.FetchReply(0, b"")


@pytest.mark.parametrize(
    ("request_", "reply", "version", "fault"),
    [
        (VERSIONS, offers((1, 0, 3), (1, 0, 4)), 2, "it tells of 1 twice"),
        (VERSIONS, offers((1, 3, 2)), 2, "it gives the highest version of API 1 2, and none is below 3"),
        (VERSIONS, offers((1, -1, 2)), 2, "it gives the lowest version of API 1 -1, and none is below 0"),
        (asking("t"), told("u"), 9, "it tells of u, where t was asked for"),
        (asking("t"), told("t", "t"), 9, "it tells of t twice"),
        (metadata.MetadataRequest(topics=None), told("t", "t"), 9, "it tells of t twice"),
        (metadata.MetadataRequest(topics=None), told("a\nb"), 9, r"the name 'a\nb', which none has"),
        (metadata.MetadataRequest(topics=None), told("x" * 256), 9, "which none has"),
        (
            offset_fetch.OffsetFetchRequest.for_group("g", None),
            committed(topic=""),
            8,
            "it gives a topic the name '', which none has",
        ),
        (asking("t"), told("t", brokers=(BROKER, BROKER)), 9, "it tells of 1 twice"),
        (
            asking("t"),
            told("t", brokers=(replace(BROKER, port=0),)),
            9,
            "it gives broker 1 (h) the port 0, and ports are 1 to 65535",
        ),
        (asking("t"), told("t", brokers=(replace(BROKER, port=65536),)), 9, "the port 65536"),
        (asking("t"), told("t", brokers=(replace(BROKER, host=""),)), 9, "the host '', which is none"),
        (asking("t"), told("t", brokers=(replace(BROKER, host="h" * 256),)), 9, "… (256 characters)'"),
        (asking("t"), told("t", brokers=(replace(BROKER, host="a\nb\0"),)), 9, r"the host 'a\nb\x00'"),
        (asking("t"), told("t", brokers=(replace(BROKER, node_id=-1),)), 9, "the broker id -1"),
        (asking("t"), told("t", partition_index=-7), 9, "it gives the partition -7 of t"),
        (asking("t"), told("t", leader_id=-2), 9, "it gives the leader -2 of t"),
        (asking("t"), told("t", leader_epoch=-2), 9, "it gives the leader epoch -2 of t"),
        (fetching(), fetched(partition_index=1), 12, "it tells of t 1, where t 0 was asked for"),
        (fetching(), fetched(high_watermark=-2), 12, "the high watermark -2"),
        (fetching(), fetched(last_stable_offset=-2), 12, "the last stable offset -2"),
        (fetching(), fetched(log_start_offset=-2), 12, "the log start offset -2"),
        (
            fetching(),
            fetched(aborted_transactions=(fetch.AbortedTransaction(producer_id=-1, first_offset=0),)),
            12,
            "the producer id of an aborted transaction -1",
        ),
        (fetching(), fetched_by_id(OTHER_ID), 13, f"it tells of {OTHER_ID} 0, where {ID} 0 was asked for"),
        (fetching(), fetch.FetchReply(responses=()), 12, "it does not tell of t 0, which was asked for"),
        (PRODUCING, produced("u"), 9, "it tells of u 0, where t 0 was asked for"),
        (PRODUCING, produced("t", "t"), 9, "it tells of t 0 twice"),
        (PRODUCING, produced(), 9, "it does not tell of t 0, which was asked for, but of nothing"),
        (PRODUCING, produced("t", base_offset=-1), 9, "the base offset -1 of t"),
        (IDENTIFYING, identity(-1, 0), 4, "it gives the producer id -1, and none is below 0"),
        (IDENTIFYING, identity(0, -1), 4, "it gives the producer epoch -1, and none is below 0"),
        (ADDING, added("t", 0), 3, "it does not tell of t 1, which was asked for"),
        (ADDING, added("u", 0, 1), 3, "it tells of u 0, where t 0, t 1 was asked for"),
        (OFFSETS_IN_TXN, committed_in_txn("t", 1), 5, "it tells of t 1, where t 0 was asked for"),
        (ENDING, ended(-1, 0), 5, "it gives the producer id -1, and none is below 0"),
        (ENDING, ended(1, -1), 5, "it gives the producer epoch -1, and none is below 0"),
        (
            replace(ENDING, producer_epoch=7),
            ended(1, 6),
            5,
            "it gives the producer epoch 6, and none is below 7",
        ),
        (LISTING, listed_transactions("x", "x"), 2, "it tells of x twice"),
        (LISTING, listed_transactions("x", producer_id=-1), 2, "it gives the producer id -1 of x"),
        (DESCRIBING_TXN, described_transactions("y"), 0, "it tells of y, where x was asked for"),
        (DESCRIBING_TXN, described_transactions(), 0, "it does not tell of x"),
        (DESCRIBING_TXN, described_transactions("x", producer_id=-1), 0, "the producer id -1 of x"),
        (DESCRIBING_TXN, described_transactions("x", producer_epoch=-2), 0, "the producer epoch -2 of x"),
        (listing(-1), listed(0, topic="u"), 8, "it tells of u 0, where t 0 was asked for"),
        (listing(-1), listed(0, 0), 8, "it tells of t 0 twice"),
        (listing(-1), listed(), 8, "it does not tell of t 0, which was asked for, but of nothing"),
        (listing(-1), listed(0, offset=-1), 8, "it gives the offset -1 of t 0, and none is below 0"),
        (listing(5), listed(0, offset=-2), 8, "it gives the offset -2 of t 0, and none is below -1"),
        (listing(5), listed(0, timestamp=-2), 8, "it gives the timestamp -2 of t 0"),
        (
            listing(5),
            listed(0, offset=-1, old_style_offsets=(3, 2)),
            0,
            "it gives 2 offsets of t 0, where 1 was asked for",
        ),
        (COORDINATING, coordinated(key="h"), 4, "it tells of h, where g was asked for"),
        (COORDINATING, coordinated(port=0), 4, "the port 0"),
        (COORDINATING, coordinated(node_id=-1), 4, "the broker id -1"),
        (
            COORDINATING,
            find_coordinator.FindCoordinatorReply(node_id=1, host="", port=9092),
            3,
            "the host '', which is none",
        ),
        (COMMITTED_OF, committed(group="h"), 8, "it tells of h, where g was asked for"),
        (COMMITTED_OF, committed(topic="u"), 8, "it tells of u 0, where t 0 was asked for"),
        (COMMITTED_OF, committed(committed_offset=-2), 8, "it gives the committed offset -2 of t"),
        (COMMITTING, commits("u", 0), 8, "it tells of u 0, where t 0 was asked for"),
        (COMMITTING, commits("t", 1), 8, "it tells of t 1, where t 0 was asked for"),
        (creating(3), created("u"), 7, "it tells of u, where t was asked for"),
        (creating(3), created(), 7, "it does not tell of t"),
        (creating(3), created("t", num_partitions=2), 7, "it gives the new topic 2 partitions, where 3 was"),
        (CONFIGURED, configured("u"), 4, "it tells of 2 u, where 2 t was asked for"),
        (CONFIGURED, configured("t", "t"), 4, "it tells of 2 t twice"),
        (CONFIGURED, configured(), 4, "it does not tell of 2 t, which was asked for, but of nothing"),
        (CONFIGURED, configured("t", names=("a",)), 0, "it tells of a, where cleanup.policy was asked for"),
        (CONFIGURED, configured("t", names=("cleanup.policy",) * 2), 2, "it tells of cleanup.policy twice"),
        (DESCRIBING, described("h"), 5, "it tells of h, where g was asked for"),
        (DESCRIBING, described("g", "g"), 5, "it tells of g twice"),
        (DESCRIBING, described("g", members=2), 5, "it tells of g m twice"),
        (LEADING, led(), 1, "it does not tell of g, which was asked for, but of nothing"),
        (
            LOGGING_IN,
            sasl.SaslAuthenticateReply(error_code=0, auth_bytes=b"", session_lifetime_ms=-1),
            2,
            "the session lifetime -1",
        ),
        (TWO_FETCHES, v07.MultiFetchReply(0, (NOTHING_07,)), 0, "2 partitions were asked for and 1 came"),
        (v07.OffsetsRequest("t", 0, -1, 2), v07.OffsetsReply(0, ()), 0, "the answer is empty"),
        (v07.OffsetsRequest("t", 0, -1, 2), v07.OffsetsReply(0, (1, 2)), 0, "is not newest first"),
        (v07.OffsetsRequest("t", 0, -1, 2), v07.OffsetsReply(0, (2, -1)), 0, "the offset -1"),
    ],
)
def test_a_reply_that_is_none_to_its_request_is_refused(
    request_: Any, reply: Any, version: int, fault: str
) -> None:
    with pytest.raises(ProtocolError) as raised:
        answered(request_, reply, version)
    assert fault in str(raised.value)
    assert " reply is none to its request: " in str(raised.value)


@pytest.mark.parametrize(
    ("request_", "reply", "version"),
    [
        pytest.param(
            fetching(), fetch.FetchReply(responses=(), throttle_time_ms=9), 12, id="throttled fetch"
        ),
        pytest.param(fetching(), fetch.FetchReply(responses=(), error_code=70), 12, id="no fetch session"),
        pytest.param(
            fetching(), fetched(error_code=1, high_watermark=-1), 12, id="a fetch out of the log's range"
        ),
        pytest.param(fetching(), fetched(high_watermark=-1), 12, id="a leader that was just elected"),
        pytest.param(asking("t", "u"), told("t"), 9, id="a topic that the user may not see"),
        pytest.param(asking("t"), told("t", leader_id=-1), 9, id="a partition without leader"),
        pytest.param(asking("t"), told("t", brokers=()), 9, id="a broker that knows no broker yet"),
        pytest.param(asking(), told("t"), 0, id="all topics in version 0"),
        pytest.param(asking(), told("t"), 12, id="all topics, where noida-db is asked for none"),
        pytest.param(listing(5), listed(0, offset=-1), 8, id="no record of that age"),
        pytest.param(listing(-1), listed(0, offset=-1, error_code=6), 8, id="another leader, and no offset"),
        pytest.param(
            PRODUCING, produced("t", base_offset=-1, error_code=46), 9, id="records that were there before"
        ),
        pytest.param(IDENTIFYING, identity(-1, -1, 15), 4, id="no identity yet"),
        pytest.param(ENDING, ended(-1, -1, 90), 5, id="a producer that was fenced"),
        pytest.param(
            replace(ENDING, producer_epoch=2**15 - 2), ended(2, 0), 5, id="another producer, where epochs end"
        ),
        pytest.param(
            DESCRIBING_TXN,
            described_transactions("x", producer_id=-1, producer_epoch=-1, error_code=105),
            0,
            id="a transactional id that nobody used",
        ),
        pytest.param(
            asking("t"),
            told("t", brokers=(replace(BROKER, host="h" * 255),)),
            9,
            id="a host of as many letters as a name may have",
        ),
        pytest.param(
            COORDINATING,
            find_coordinator.FindCoordinatorReply(error_code=15),
            3,
            id="no coordinator at the moment",
        ),
        pytest.param(
            COORDINATING, coordinated(node_id=-1, host="", port=-1, error_code=15), 4, id="and in version 4"
        ),
        pytest.param(
            COMMITTED_OF,
            offset_fetch.OffsetFetchReply(error_code=16),
            7,
            id="a group that another broker coordinates",
        ),
        pytest.param(creating(-1), created("t", num_partitions=4), 7, id="as many partitions as is usual"),
        pytest.param(creating(3), created("t"), 4, id="a topic whose partitions are not told"),
        pytest.param(VERSIONS, offers(error_code=35), 0, id="a broker before this version"),
        pytest.param(v07.OffsetsRequest("t", 0, 5, 2), v07.OffsetsReply(0, ()), 0, id="no segment so old"),
        pytest.param(
            v07.OffsetsRequest("t", 0, -1, 2), v07.OffsetsReply(0, (7, 7)), 0, id="a segment not flushed"
        ),
    ],
)
def test_odd_replies_of_honest_brokers_are_read(request_: Any, reply: Any, version: int) -> None:
    assert answered(request_, reply, version) == reply


def test_what_a_peer_says_of_something_else_stays_one_short_line() -> None:
    names = tuple(f"{index}\n{LONG}" for index in range(1000))
    with pytest.raises(ProtocolError) as raised:
        answered(asking(*(name[:200] for name in names)), told("\x1b[2J\0" + LONG), 9)
    line = str(raised.value)
    assert line.isprintable()
    assert len(line) < 6 * SHOWN_SIZE_MAX
    assert "and 997 more was asked for" in line


def test_every_reply_of_every_dialect_is_compared_with_its_request() -> None:
    for api in (*modern.DIALECT.apis, *v07.DIALECT.apis):
        assert (api.response is None) == (api.faults is None), api.name
