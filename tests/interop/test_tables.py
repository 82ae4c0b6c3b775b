"""Tables of clusters: Kafka's own AdminClient is the judge, of share and streams groups, too."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import socket
import struct
import subprocess
import uuid
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.broker.cluster import find_java
from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.net.pool import POOL
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.kio_library import HAS_KIO, NEEDS_KIO
from tests.support.noida import HOST
from tests.support.polling import GRACE_S, poll
from tests.support.table_reading import table_rows

from .apache_kafka import NEW_PROTOCOL_SINCE, USERS, ApacheCluster, ApacheKafka
from .jars import broker_jars
from .versions import NEWEST, broker_with, judge_of, needs_broker, newest

if HAS_KIO:
    from kio.schema.offset_commit.v9 import request as commit
    from kio.schema.offset_commit.v9.response import OffsetCommitResponse
    from kio.schema.streams_group_heartbeat.v0 import request as heartbeat
    from kio.schema.streams_group_heartbeat.v0.response import (
        StreamsGroupHeartbeatResponse,
    )
    from kio.serial import entity_reader, entity_writer
    from kio.static.primitive import i16, i32, i32Timedelta, i64

#: A broker asks who may do what; who is not logged in may do everything.
STRICT: Final = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
    "share.coordinator.state.topic.num.partitions=1",
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
)
#: All tables, each with the right that it is refused without.
REFUSED: Final = {
    "brokers": "Describe on Cluster; or leave the column bytes out",
    "topics": "Describe on the topics",
    "partitions": "Describe on the topics",
    "groups": "Describe on Cluster, or Describe on the groups",
    "group_members": "Describe on Cluster, or Describe on the groups",
    "group_offsets": "Describe on Cluster, or Describe on the groups",
    "configs": "Describe on the topics",
    "transactions": "Describe on the transactional ids",
    "producers": "Describe on the topics",
}


kafka = broker_with(STRICT)


def ms_of(time: datetime.datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


def comparable(row: dict[str, Any], judged: dict[str, Any]) -> list[Any]:
    """The columns of a row that the judge knows, too."""
    values = [row[name] for name in judged]
    return [ms_of(value) if isinstance(value, datetime.datetime) else value for value in values]


def judged_tables(servers: str, version: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of all tables, which are those of Kafka's AdminClient, and none of which is empty."""
    result = {name: table_rows(servers, name) for name in REFUSED}
    judged = json.loads(judge_of("TablesJudge.java", version)(servers))
    # Groups of the tests below, which the judge does not ask for.
    others = {row["groupId"] for row in result["groups"] if row["type"] in ("share", "streams")}
    for name in REFUSED:
        theirs, ours = judged[name], [row for row in result[name] if row.get("groupId") not in others]
        assert theirs, name
        expected = sorted((list(row.values()) for row in theirs), key=repr)
        assert sorted((comparable(row, theirs[0]) for row in ours), key=repr) == expected, name
    return result


def test_every_table_is_what_kafkas_admin_client_says(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, 3, None, {"retention.ms": "-1"})
    group = f"group-of-{topic}"
    librdkafka.produce(servers, topic, [Record(b"v" * 100, partition=item % 2) for item in range(9)])
    librdkafka.commit_offsets(servers, group, topic, {0: 1, 1: 4})
    librdkafka.commit(servers, topic, [Record(b"in a transaction", partition=2)])
    protocols = ["classic", *(["consumer"] if kafka.version >= NEW_PROTOCOL_SINCE else [])]
    members = [
        librdkafka.member(servers, f"{item}-{topic}", topic, group_protocol=item) for item in protocols
    ]
    opened = librdkafka.transaction(
        servers, topic, [Record(b"open", partition=1)], outcome="open", transactional_id=f"open-{topic}"
    )
    with opened:
        for item in members:
            item.__enter__()
        try:
            result = judged_tables(servers, kafka.version)
        finally:
            for item in members:
                item.__exit__(None, None, None)
    by_place = {(row["topic"], row["partition"]): row for row in result["partitions"]}
    assert [by_place[topic, part]["lastStable"] for part in range(3)] == [5, 4, 2]
    assert [by_place[topic, part]["latest"] for part in range(3)] == [5, 5, 2]
    [holding] = [row for row in result["producers"] if row["holdsLastStable"]]
    assert (holding["topic"], holding["partition"], holding["txnStartOffset"]) == (topic, 1, 4)
    [waited] = [row for row in result["transactions"] if row["state"] == "Ongoing"]
    assert (waited["transactionalId"], waited["producerId"]) == (f"open-{topic}", holding["producerId"])
    assert [row for row in result["configs"] if row["isSensitive"] and row["value"] is not None] == []
    assert [row for row in result["configs"] if row["isSensitive"]] != []
    assert {row["lag"] for row in result["group_offsets"] if row["groupId"] == group} == {4, 1}


def test_tables_of_three_brokers_are_what_kafkas_admin_client_says(tmp_path: Path) -> None:
    """Each broker coordinates some of the groups and transactions, and leads some of the partitions."""
    needs_broker(NEWEST)
    with ApacheCluster(NEWEST, tmp_path, nodes=3) as cluster, contextlib.ExitStack() as stack:
        servers = cluster.bootstrap_servers()
        topic = librdkafka.create_topic(servers, 6, None, {"retention.ms": "-1"})
        librdkafka.produce(servers, topic, [Record(b"v", partition=item) for item in range(6)])
        for item in range(6):
            librdkafka.commit_offsets(servers, f"group-{item}", topic, {item: 1})
            opened = librdkafka.transaction(
                servers, topic, [Record(b"v", partition=item)], outcome="open", transactional_id=f"id-{item}"
            )
            stack.enter_context(opened)
        stack.enter_context(librdkafka.member(servers, "with a member", topic))
        result = judged_tables(servers, NEWEST)
        assert len({row["coordinator"] for row in result["groups"]}) > 1
        assert len({row["coordinator"] for row in result["transactions"]}) > 1
        assert len({row["leader"] for row in result["partitions"] if row["topic"] == topic}) == 3
        assert sum(row["holdsLastStable"] for row in result["producers"]) == 6
    POOL.close_idle()


def test_a_user_without_rights_gets_an_error_that_names_the_acl(kafka: ApacheKafka) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = {
        "kafka__security__protocol": "SASL_PLAINTEXT",
        "kafka__sasl__mechanism": "PLAIN",
        "kafka__sasl__jaas__config": f'{module} required username="alice" password="{USERS["alice"]}";',
    }
    for table, right in REFUSED.items():
        with pytest.raises(KafkaWireError, match=f"the user needs the ACL {right}") as error:
            table_rows(kafka.bootstrap_servers("SASL_PLAINTEXT"), table, **login)
        assert str(error.value).isprintable()
        assert USERS["alice"] not in str(error.value)


@newest
def test_members_of_a_share_group_are_those_of_kafkas_admin_client(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, 3)
    librdkafka.produce(servers, topic, [Record(b"v")])
    source = Path(__file__).with_name("ShareGroupJudge.java")
    command = [str(find_java()), "-cp", f"{broker_jars(NEWEST)}/*", str(source), servers, topic, "sharing"]
    member = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert member.stdout is not None
        judged = json.loads(member.stdout.readline())
        [group] = table_rows(servers, "groups", kafka__group__id="sharing")
        members = table_rows(servers, "group_members", kafka__group__id="sharing")
    finally:
        member.communicate()
    assert members == judged["members"]
    assert members[0]["clientId"] == "the share client"
    assert [item["partition"] for item in members[0]["assignment"]] == [0, 1, 2]
    assert (group["type"], group["protocolType"], group["members"]) == ("share", "share", 1)
    assert (group["state"], group["coordinator"]) == (judged["state"], judged["coordinator"])
    [empty] = table_rows(servers, "groups", kafka__group__id="sharing")
    assert (empty["state"], empty["members"]) == ("Empty", 0)
    assert table_rows(servers, "group_members", kafka__group__id="sharing") == []


#: Brokers have offered streams groups since 4.2, and an early access before.
GROUP: Final = "streaming"
#: Codes of a coordinator that loads, or is not there yet.
_NOT_YET: Final = (14, 15, 16)
_CLIENT_ID: Final = b"streams-kw"
#: Header of a request: API key and version, correlation id, size of the client id.
_HEADER: Final = struct.Struct(">hhih")


class Member:
    """A member of a streams group, as far as it takes to get tasks."""

    def __init__(self, sock: socket.socket, topics: tuple[str, ...]) -> None:
        self._sock = sock
        self._topics = topics
        self.id = str(uuid.uuid4())
        self._epoch = 0

    def beat(self) -> None:
        """Join, or stay. A coordinator that does not serve the group yet is asked again by the next beat."""
        joins = self._epoch == 0
        nothing: Any = () if joins else None
        request = heartbeat.StreamsGroupHeartbeatRequest(
            group_id=GROUP,  # type: ignore[arg-type]
            member_id=self.id,
            member_epoch=i32(self._epoch),
            endpoint_information_epoch=i32(0),
            rebalance_timeout=i32Timedelta.parse(datetime.timedelta(seconds=60)),
            topology=self._topology() if joins else None,
            active_tasks=nothing,
            standby_tasks=nothing,
            warmup_tasks=nothing,
            process_id="process" if joins else None,
            client_tags=nothing,
            task_offsets=None,
            task_end_offsets=None,
        )
        response = self._ask(request, StreamsGroupHeartbeatResponse)
        if response.error_code not in _NOT_YET:
            assert response.error_code == 0, response
            self._epoch = response.member_epoch

    def commit(self, topic: str, offset: int) -> None:
        """Commit the offset of partition 0."""
        partition = commit.OffsetCommitRequestPartition(
            partition_index=i32(0), committed_offset=i64(offset), committed_metadata=""
        )
        request = commit.OffsetCommitRequest(
            group_id=GROUP,  # type: ignore[arg-type]
            generation_id_or_member_epoch=i32(self._epoch),
            member_id=self.id,
            topics=(commit.OffsetCommitRequestTopic(name=topic, partitions=(partition,)),),  # type: ignore[arg-type]
        )
        [committed] = self._ask(request, OffsetCommitResponse).topics
        assert [item.error_code for item in committed.partitions] == [0]

    def _ask(self, request: Any, response: type[Any]) -> Any:
        kind = type(request)
        body = io.BytesIO()
        entity_writer(kind)(body, request)
        header = _HEADER.pack(kind.__api_key__, kind.__version__, 7, len(_CLIENT_ID)) + _CLIENT_ID + b"\0"
        frame = header + body.getvalue()
        self._sock.sendall(len(frame).to_bytes(4, "big") + frame)
        size = int.from_bytes(self._received(4), "big")
        # The header: correlation id, no tagged field.
        return entity_reader(response)(self._received(size), 5)[0]

    def _topology(self) -> Any:
        subtopology = heartbeat.Subtopology(
            subtopology_id="0",
            source_topics=self._topics,  # type: ignore[arg-type]
            state_changelog_topics=(),
            repartition_source_topics=(),
            copartition_groups=(
                heartbeat.CopartitionGroup(source_topics=(i16(0),)),
                heartbeat.CopartitionGroup(source_topics=(i16(1),)),
            ),
        )
        return heartbeat.Topology(epoch=i32(0), subtopologies=(subtopology,))

    def _received(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._sock.recv(size - len(data))
            assert part, "the broker closed the connection"
            data += part
        return data


@NEEDS_KIO
@newest
def test_a_streams_group_has_members_with_tasks_offsets_and_lag(kafka: ApacheKafka) -> None:
    """Its member joins with frames of kio (KIP-1071)."""
    servers = kafka.bootstrap_servers()
    wide, narrow = librdkafka.create_topic(servers, 3), librdkafka.create_topic(servers, 1)
    # The topic of the groups comes into being with the first one.
    librdkafka.commit_offsets(servers, "first", narrow, {0: 0})
    address = (HOST, kafka.ports["PLAINTEXT"])
    with contextlib.closing(socket.create_connection(address, GRACE_S)) as sock:
        member = Member(sock, tuple(sorted((wide, narrow))))

        def assigned() -> list[dict[str, Any]]:
            member.beat()
            rows = table_rows(servers, "group_members", kafka__group__id=GROUP)
            return [row for row in rows if row["assignment"]]

        [row] = poll(assigned, "a member with tasks")
        librdkafka.produce(servers, narrow, [Record(b"v", partition=0)] * 5)
        member.commit(narrow, 2)
        [group] = table_rows(servers, "groups", kafka__group__id=GROUP)
        [read] = table_rows(servers, "group_offsets", kafka__group__id=GROUP)
    assert (row["memberId"], row["clientId"], row["host"]) == (member.id, "streams-kw", "/127.0.0.1")
    places = [(wide, 0), (wide, 1), (wide, 2), (narrow, 0)]
    assert [(item["topic"], item["partition"]) for item in row["assignment"]] == sorted(places)
    assert row["memberEpoch"] > 0
    assert (group["type"], group["protocolType"], group["state"]) == ("streams", "streams", "Stable")
    assert group["members"] == 1
    assert (read["topic"], read["partition"], read["offset"], read["lag"]) == (narrow, 0, 2, 3)
