"""Tables of a cluster."""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import pytest
from kazoo.client import KazooClient
from pyspark.sql.types import IntegerType, StructField, StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.errors import (
    BrokerError,
    OptionError,
    UnknownTopicError,
    UnsupportedVersionError,
)
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.options.selection import DIRECTORY_TABLES, TABLES
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api, VersionRange
from spark_kafkawire.protocol.modern import admin, group_members, metadata
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.group_members import AssignedTopic, MemberAssignment
from spark_kafkawire.source.spark_versions import spark_type
from spark_kafkawire.tables.catalogue import CATALOGUE
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.log_broker import OFFERED
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.mock_cluster import MockCluster
from tests.support.noida import NoidaBroker
from tests.support.pages import table_after
from tests.support.streams_groups import streams_group
from tests.support.table_reading import rows_of, table_rows

MODERN: Final = {"kafka.bootstrap.servers": "127.0.0.1:1"}
QUICK: Final = {"retries": "0", "requestTimeout": "20s"}


@pytest.fixture
def topic(noida: NoidaBroker) -> str:
    """Two partitions, three records in the second one, and the offset of a group there."""
    topic = noida.create_topic(partitions=2)
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"v", partition=1)] * 3)
    librdkafka.commit_offsets(noida.bootstrap_servers, f"group-{topic}", topic, {1: 1})
    return topic


def test_partitions_have_offsets_and_sizes(noida: NoidaBroker, topic: str) -> None:
    empty, filled = table_rows(noida.bootstrap_servers, "partitions", subscribe=topic)
    assert (empty["partition"], empty["earliest"], empty["latest"], empty["lastStable"]) == (0, 0, 0, 0)
    assert (filled["earliest"], filled["latest"], filled["lastStable"]) == (0, 3, 3)
    assert filled["replicas"] == filled["isr"] == [filled["leader"]]
    assert empty["bytes"] == 0 < filled["bytes"]


def test_groups_are_chosen_by_name_and_offsets_by_topic(noida: NoidaBroker, topic: str) -> None:
    servers, group = noida.bootstrap_servers, f"group-{topic}"
    [row] = table_rows(servers, "group_offsets", subscribe=topic)
    assert (row["groupId"], row["partition"], row["offset"], row["latest"], row["lag"]) == (group, 1, 1, 3, 2)
    assert table_rows(servers, "group_offsets", kafka__group__id=group) == [row]
    assert [item["groupId"] for item in table_rows(servers, "groups", kafka__group__id=group)] == [group]
    assert table_rows(servers, "groups", kafka__group__id="no such group") == []
    assert table_rows(servers, "group_offsets", subscribePattern="no such topic") == []


def test_members_have_their_assignments(noida: NoidaBroker, topic: str) -> None:
    servers, group = noida.bootstrap_servers, f"members-{topic}"
    with librdkafka.member(servers, group, topic, client_id="the client"):
        [row] = table_rows(servers, "group_members", kafka__group__id=group)
    assert row["clientId"] == "the client"
    assert row["assignment"] == [{"topic": topic, "partition": item} for item in (0, 1)]


def test_a_pattern_chooses_no_internal_topics(noida: NoidaBroker, topic: str) -> None:
    every = {row["topic"]: row["isInternal"] for row in table_rows(noida.bootstrap_servers, "topics")}
    assert every[topic] is False
    assert every["__consumer_offsets"] is True
    chosen = table_rows(noida.bootstrap_servers, "topics", subscribePattern=f"{topic}$|^__consumer_offsets$")
    assert [(row["topic"], row["partitions"]) for row in chosen] == [(topic, 2)]


def test_a_topic_that_does_not_exist_is_an_error(noida: NoidaBroker) -> None:
    with pytest.raises(UnknownTopicError, match="no such"):
        table_rows(noida.bootstrap_servers, "partitions", subscribe="never-made", **QUICK)


@pytest.mark.parametrize(
    ("columns", "apis"),
    [(("topic", "leader", "isr"), set()), (("topic", "latest"), {modern.LIST_OFFSETS.key})],
)
def test_only_what_columns_need_is_asked(
    mock_cluster: MockCluster, columns: Sequence[str], apis: set[int]
) -> None:
    mock_cluster.create_topic("t", partitions=3)
    mock_cluster.start_request_tracking()
    assert len(table_rows(mock_cluster.bootstrap_servers, "partitions", columns, subscribe="t")) == 3
    asked = {request.api_key for request in mock_cluster.requests()}
    assert asked - {modern.API_VERSIONS.key, modern.METADATA.key} == apis


def test_a_partition_without_a_leader_has_no_offsets(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=2)
    mock_cluster.set_leader("t", 1, -1)
    columns = ("partition", "leader", "latest", "bytes")
    led, leaderless = table_rows(mock_cluster.bootstrap_servers, "partitions", columns, subscribe="t")
    assert led["leader"] is not None
    assert led["latest"] == 0
    # These brokers do not describe their directories.
    assert led["bytes"] is None
    assert leaderless == {"partition": 1, "leader": None, "latest": None, "bytes": None}


def disk_rows(
    directories: Sequence[admin.LogDir], offered: Mapping[int, VersionRange] = OFFERED
) -> list[dict[str, Any]]:
    with LogServer({"t": [MemoryLog()]}, offered=offered) as server:
        response = admin.DescribeLogDirsResponse(results=tuple(directories))
        server.broker.answer_with(admin.DescribeLogDirsRequest, lambda _: response)
        return table_rows(server.bootstrap_servers, "brokers", ("bytes", "totalBytes"), **QUICK)


def directory(path: str, size: int, *, future: bool = False) -> admin.LogDir:
    replica = admin.LogDirPartition(
        partition_index=0, partition_size=size, offset_lag=0, is_future_key=future
    )
    topic = admin.LogDirTopic(name="t", partitions=(replica,))
    return admin.LogDir(error_code=0, log_dir=path, topics=(topic,), total_bytes=100, usable_bytes=50)


def test_a_replica_that_moves_counts_once() -> None:
    moving = [directory("/a", 7), directory("/b", 3, future=True)]
    assert disk_rows(moving) == [{"bytes": 7, "totalBytes": 200}]
    old = {**OFFERED, modern.DESCRIBE_LOG_DIRS.key: VersionRange(1, 2)}
    assert disk_rows(moving, old) == [{"bytes": 7, "totalBytes": None}]


def test_a_failed_directory_has_no_size(caplog: pytest.LogCaptureFixture) -> None:
    failed = replace(directory("/b", 9), error_code=ErrorCode.KAFKA_STORAGE_ERROR, topics=())
    assert disk_rows([directory("/a", 7), failed]) == [{"bytes": 7, "totalBytes": 100}]
    assert "/b: the broker's disk failed" in caplog.text


def test_brokers_that_show_no_directory_mean_a_missing_right() -> None:
    old = {**OFFERED, modern.DESCRIBE_LOG_DIRS.key: VersionRange(1, 2)}
    with pytest.raises(BrokerError, match="the user needs the ACL Describe on Cluster; or leave the column"):
        disk_rows([], old)


#: A broker's share group and its streams group.
STREAMS: Final = streams_group("w", "m", "t", "deleted", partitions=(1, 0))
SHARE: Final = group_members.DescribedShareGroup(
    error_code=0,
    group_id="s",
    group_state="Stable",
    group_epoch=3,
    assignment_epoch=3,
    assignor_name="simple",
    members=(
        group_members.ShareGroupMember(
            member_id="m",
            member_epoch=3,
            client_id="c",
            client_host="/127.0.0.1",
            subscribed_topic_names=("t",),
            assignment=MemberAssignment(
                topic_partitions=(AssignedTopic(topic_id=uuid.uuid4(), topic_name="t", partitions=(1, 0)),)
            ),
        ),
    ),
)


def share_rows(
    table: str,
    offered: Mapping[int, VersionRange] = OFFERED,
    streams: Any = STREAMS,
    kinds: Mapping[str, str] = MappingProxyType({"s": "share", "w": "streams"}),
) -> list[dict[str, Any]]:
    listed = tuple(
        group_members.ListedGroup(group_id=name, protocol_type=kind, group_type=kind.title())
        for name, kind in kinds.items()
    )

    def described_share(request: group_members.ShareGroupDescribeRequest) -> Any:
        assert request.group_ids == ("s",)
        return group_members.ShareGroupDescribeResponse(groups=(SHARE,))

    def described_streams(request: group_members.StreamsGroupDescribeRequest) -> Any:
        assert request.group_ids == ("w",)
        return group_members.StreamsGroupDescribeResponse(groups=(streams,))

    with LogServer({"t": [MemoryLog()]}, offered=offered) as server:
        answer_with = server.broker.answer_with
        answer_with(
            group_members.ListGroupsRequest,
            lambda _: group_members.ListGroupsResponse(error_code=0, groups=listed),
        )
        answer_with(group_members.ShareGroupDescribeRequest, described_share)
        answer_with(group_members.StreamsGroupDescribeRequest, described_streams)
        return table_rows(server.bootstrap_servers, table, **QUICK)


def test_members_of_share_groups_have_their_partitions() -> None:
    row, _ = share_rows("group_members")
    assert row == {
        "groupId": "s",
        "memberId": "m",
        "instanceId": None,
        "clientId": "c",
        "host": "/127.0.0.1",
        "memberEpoch": 3,
        "assignment": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}],
    }
    shared, _ = share_rows("groups")
    assert (shared["type"], shared["state"], shared["assignor"], shared["members"]) == (
        "share",
        "Stable",
        "simple",
        1,
    )


def test_offsets_of_streams_groups_have_their_lag() -> None:
    assert share_rows("group_offsets") == [
        {
            "groupId": "w",
            "topic": "t",
            "partition": 0,
            "broker": None,
            "offset": 1,
            "leaderEpoch": None,
            "metadata": None,
            "latest": 0,
            "lag": -1,
        }
    ]


def test_members_of_streams_groups_have_the_partitions_of_their_active_tasks() -> None:
    """A task of a partition that an input topic lacks does not read that topic."""
    _, row = share_rows("group_members")
    assert row == {
        "groupId": "w",
        "memberId": "m",
        "instanceId": None,
        "clientId": "c",
        "host": "/127.0.0.1",
        "memberEpoch": 3,
        "assignment": [{"topic": "t", "partition": 0}],
    }
    _, streams = share_rows("groups")
    assert (streams["type"], streams["state"], streams["assignor"], streams["members"]) == (
        "streams",
        "Stable",
        None,
        1,
    )


def test_members_of_a_streams_group_without_a_topology_have_no_known_partitions() -> None:
    _, row = share_rows("group_members", streams=replace(STREAMS, topology=None))
    assert (row["memberId"], row["assignment"]) == ("m", None)


@pytest.mark.parametrize(
    ("api", "group"), [(modern.SHARE_GROUP_DESCRIBE, "s"), (modern.STREAMS_GROUP_DESCRIBE, "w")]
)
def test_a_broker_that_does_not_describe_a_type_of_groups_lists_them(api: Api, group: str) -> None:
    old = {key: item for key, item in OFFERED.items() if key != api.key}
    assert group not in [row["groupId"] for row in share_rows("group_members", old)]
    assert {row["groupId"]: row["members"] for row in share_rows("groups", old)} == {"s": 1, "w": 1} | {
        group: None
    }


def test_a_group_of_consumers_that_is_not_described_is_an_error() -> None:
    old = {key: item for key, item in OFFERED.items() if key != modern.CONSUMER_GROUP_DESCRIBE.key}
    with pytest.raises(UnsupportedVersionError, match="ConsumerGroupDescribe"):
        share_rows("group_members", old, kinds={"c": "consumer"})


def test_topics_that_the_user_may_not_see_are_a_missing_right() -> None:
    def hidden(request: metadata.MetadataRequest) -> metadata.MetadataResponse:
        topics = tuple(
            metadata.MetadataTopic(
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=item.name, partitions=()
            )
            for item in request.topics or ()
        )
        node = metadata.MetadataBroker(node_id=0, host="127.0.0.1", port=server.port)
        return metadata.MetadataResponse(brokers=(node,), topics=topics)

    with LogServer({"t": [MemoryLog()]}) as server:
        server.broker.answer_with(metadata.MetadataRequest, hidden)
        for table in ("topics", "partitions", "producers"):
            with pytest.raises(BrokerError, match="the user needs the ACL Describe on the topics"):
                table_rows(server.bootstrap_servers, table, **QUICK)


class TestKafka07:
    """ZooKeeper's knowledge of a cluster of 0.7."""

    def rows(self, corpus: EmbeddedCluster, table: str, **options: str) -> list[dict[str, Any]]:
        return rows_of({"zookeeper.connect": corpus.zookeeper_connect, "table": table, **options})

    def test_brokers_and_topics_are_listed(self, corpus: EmbeddedCluster) -> None:
        assert [row["broker"] for row in self.rows(corpus, "brokers")] == [0, 1]
        topics = {row["topic"]: row["partitions"] for row in self.rows(corpus, "topics")}
        assert topics["debian-gzip"] > 0

    def test_partitions_have_offsets(self, corpus: EmbeddedCluster) -> None:
        rows = self.rows(corpus, "partitions", subscribe="debian-gzip")
        assert {row["leader"] for row in rows} == {0, 1}
        assert all(row["bytes"] == row["latest"] - row["earliest"] for row in rows)
        assert any(row["bytes"] > 0 for row in rows)

    def test_groups_have_the_offsets_and_members_of_zookeeper(
        self, corpus: EmbeddedCluster, corpus_zookeeper: KazooClient
    ) -> None:
        folder = "/consumers/group of tables"
        for topic in ("debian-gzip", "debian-plain"):
            corpus_zookeeper.create(f"{folder}/offsets/{topic}/1-2", b"7", makepath=True)
        member = json.dumps({"subscription": {"debian-gzip": 1}, "timestamp": "1", "version": 1})
        corpus_zookeeper.create(f"{folder}/ids/a member", member.encode(), ephemeral=True, makepath=True)
        chosen = {"subscribe": "debian-gzip"}
        [partition] = [
            row
            for row in self.rows(corpus, "partitions", **chosen)
            if (row["leader"], row["partition"]) == (1, 2)
        ]
        group = {"groupId": "group of tables"}
        [row] = [row for row in self.rows(corpus, "group_offsets", **chosen) if row.items() >= group.items()]
        assert (row["topic"], row["partition"], row["broker"], row["offset"]) == ("debian-gzip", 2, 1, 7)
        assert (row["latest"], row["lag"]) == (partition["latest"], partition["latest"] - 7)
        both = [row for row in self.rows(corpus, "group_offsets") if row.items() >= group.items()]
        assert [row["topic"] for row in both] == ["debian-gzip", "debian-plain"]
        groups = set(corpus_zookeeper.get_children("/consumers"))
        assert {row["groupId"] for row in self.rows(corpus, "groups")} == groups
        members = [row for row in self.rows(corpus, "group_members") if row.items() >= group.items()]
        assert [row["memberId"] for row in members] == ["a member"]
        corpus_zookeeper.delete(folder, recursive=True)

    @pytest.mark.parametrize("table", ["configs", "transactions", "producers"])
    def test_other_tables_are_refused(self, corpus: EmbeddedCluster, table: str) -> None:
        refused = (
            rf"^option table={table}: Kafka 0.7 has no such table; there are brokers, topics, partitions"
        )
        with pytest.raises(OptionError, match=refused):
            self.rows(corpus, table)


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"table": "lag"}, "option table: 'lag' is not brokers or topics or partitions"),
        ({"TABLE": "topics", "startingoffsets": "latest"}, "option startingOffsets has no meaning with"),
        ({"table": "topics", "includeHeaders": "true"}, "option includeHeaders has no meaning with"),
        ({"table": "topics", "clientRack": "a"}, "option clientRack has no meaning with table=topics"),
        ({"table": "topics", "assign": '{"t":[0]}'}, "option assign has no meaning with table=topics"),
        ({"table": "brokers", "subscribe": "t"}, "option subscribe has no meaning with table=brokers"),
        (
            {"table": "topics", "kafka.group.id": "g"},
            "option kafka.group.id has no meaning with table=topics",
        ),
        ({"table": "topics", "subscribe": "t", "subscribePattern": "t"}, "set exactly one of the options"),
        (
            {"table": "segments"},
            "option table=segments reads log directories, and no path is set: give their path to load()",
        ),
        ({"table": "topics", "fs.region": "r"}, "option fs.region is for log directories"),
    ],
)
def test_options_without_meaning_are_refused(options: dict[str, str], refusal: str) -> None:
    with pytest.raises(OptionError) as error:
        rows_of({**MODERN, **options})
    assert str(error.value).startswith(refusal)


def test_tasks_get_no_secret() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{module} required username="u" password="opensesame";',
    }
    source = KafkaWireDataSource({**MODERN, **login, "table": "topics"})
    assert b"opensesame" in pickle.dumps(source)
    reader = source.reader(source.schema())
    assert b"opensesame" not in pickle.dumps((source, reader), 0)


@pytest.mark.parametrize("table", [item for item in TABLES if item not in DIRECTORY_TABLES])
def test_a_column_that_a_table_does_not_have_is_refused(table: str) -> None:
    source = KafkaWireDataSource({**MODERN, "table": table})
    columns = source.schema()
    with pytest.raises(
        OptionError, match=f"there is no column 'nope'; there are {columns.fieldNames()[0]}, "
    ):
        source.reader(StructType([*columns, StructField("nope", IntegerType())]))


def test_streams_writes_and_jobs_refuse_a_table() -> None:
    options = {**MODERN, "table": "topics"}
    with pytest.raises(OptionError, match=r"^option table='topics' is for spark\.read: "):
        ReadOptions.parse({**options, "subscribe": "t"})
    source = KafkaWireDataSource(options)
    stream: Any = source.streamReader(source.schema())
    with pytest.raises(OptionError, match=r"^option table='topics' is for spark\.read: "):
        stream.initialOffset()


def test_the_option_knows_the_tables() -> None:
    assert tuple(CATALOGUE) == TABLES


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_the_columns_of_the_code(name: str) -> None:
    shown = table_after("docs/tables.md", f"<!-- table: {name} -->")
    columns = CATALOGUE[name].columns
    assert shown == [[item.name, spark_type(item.type).simpleString(), item.meaning] for item in columns]
