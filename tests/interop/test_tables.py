"""Tables of a cluster beside what Kafka's own AdminClient says of it, and rights that are missing."""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.net.pool import POOL
from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.foreign import Record
from tests.support.polling import GRACE_S, poll
from tests.support.table_reading import table_rows

from .apache_cluster import ApacheCluster
from .apache_kafka import NEW_PROTOCOL_SINCE, USERS, ApacheKafka
from .judging import judge_of
from .needs import needs_broker
from .versions import NEWEST, VERSIONS

#: A broker asks who may do what; who is not logged in may do everything.
STRICT: Final = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
TABLES: Final = (
    "brokers",
    "topics",
    "partitions",
    "groups",
    "group_members",
    "group_offsets",
    "configs",
    "transactions",
    "producers",
)


@pytest.fixture(scope="module", params=VERSIONS)
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[ApacheKafka]:
    """A broker of these tests alone: a table shows all of a cluster."""
    version: str = request.param
    needs_broker(version)
    folder = tmp_path_factory.mktemp(f"tables-{version}")
    with ApacheKafka(version, folder, certificates, settings=STRICT) as broker:
        yield broker
        POOL.close_idle()


def ms_of(time: datetime.datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


def comparable(row: dict[str, Any], judged: dict[str, Any]) -> list[Any]:
    """The columns of a row that the judge knows, too."""
    values = [row[name] for name in judged]
    return [ms_of(value) if isinstance(value, datetime.datetime) else value for value in values]


def judged_tables(servers: str, version: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of all tables, which are those of Kafka's AdminClient, and none of which is empty."""
    found = {name: table_rows(servers, name) for name in TABLES}
    judged = json.loads(judge_of("TablesJudge.java", version)(servers))
    for name in TABLES:
        theirs, ours = judged[name], found[name]
        assert theirs, name
        expected = sorted((list(row.values()) for row in theirs), key=repr)
        assert sorted((comparable(row, theirs[0]) for row in ours), key=repr) == expected, name
    return found


def test_every_table_is_what_kafkas_admin_client_says(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, 3, None, {"retention.ms": "-1"})
    group = f"group-of-{topic}"
    librdkafka.produce(servers, topic, [Record(b"v" * 100, partition=each % 2) for each in range(9)])
    librdkafka.commit_offsets(servers, group, topic, {0: 1, 1: 4})
    librdkafka.commit(servers, topic, [Record(b"in a transaction", partition=2)])
    protocols = ["classic", *(["consumer"] if kafka.version >= NEW_PROTOCOL_SINCE else [])]
    members = [
        librdkafka.member(servers, f"{each}-{topic}", topic, group_protocol=each) for each in protocols
    ]
    opened = librdkafka.transaction(
        servers, topic, [Record(b"open", partition=1)], outcome="open", transactional_id=f"open-{topic}"
    )
    with opened:
        for each in members:
            each.__enter__()
        try:
            found = judged_tables(servers, kafka.version)
        finally:
            for each in members:
                each.__exit__(None, None, None)
    by_place = {(row["topic"], row["partition"]): row for row in found["partitions"]}
    assert [by_place[topic, part]["lastStable"] for part in range(3)] == [5, 4, 2]
    assert [by_place[topic, part]["latest"] for part in range(3)] == [5, 5, 2]
    [holding] = [row for row in found["producers"] if row["holdsLastStable"]]
    assert (holding["topic"], holding["partition"], holding["txnStartOffset"]) == (topic, 1, 4)
    [waited] = [row for row in found["transactions"] if row["state"] == "Ongoing"]
    assert (waited["transactionalId"], waited["producerId"]) == (f"open-{topic}", holding["producerId"])
    assert [row for row in found["configs"] if row["isSensitive"] and row["value"] is not None] == []
    assert [row for row in found["configs"] if row["isSensitive"]] != []
    assert {row["lag"] for row in found["group_offsets"] if row["groupId"] == group} == {4, 1}


def test_tables_of_three_brokers_are_what_kafkas_admin_client_says(tmp_path: Path) -> None:
    """Each broker coordinates some of the groups and transactions, and leads some of the partitions."""
    needs_broker(NEWEST)
    with ApacheCluster(NEWEST, tmp_path, nodes=3) as cluster, contextlib.ExitStack() as stack:
        servers = cluster.bootstrap_servers()
        topic = librdkafka.create_topic(servers, 6, None, {"retention.ms": "-1"})
        librdkafka.produce(servers, topic, [Record(b"v", partition=each) for each in range(6)])
        for each in range(6):
            librdkafka.commit_offsets(servers, f"group-{each}", topic, {each: 1})
            opened = librdkafka.transaction(
                servers, topic, [Record(b"v", partition=each)], outcome="open", transactional_id=f"id-{each}"
            )
            stack.enter_context(opened)
        stack.enter_context(librdkafka.member(servers, "with a member", topic))
        found = judged_tables(servers, NEWEST)
        assert len({row["coordinator"] for row in found["groups"]}) > 1
        assert len({row["coordinator"] for row in found["transactions"]}) > 1
        assert len({row["leader"] for row in found["partitions"] if row["topic"] == topic}) == 3
        assert sum(row["holdsLastStable"] for row in found["producers"]) == 6
    POOL.close_idle()


#: What a table is refused without, and the right that the error names.
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


def as_alice() -> dict[str, str]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "kafka__security__protocol": "SASL_PLAINTEXT",
        "kafka__sasl__mechanism": "PLAIN",
        "kafka__sasl__jaas__config": f'{module} required username="alice" password="{USERS["alice"]}";',
    }


def refusal(kafka: ApacheKafka, table: str, **options: str) -> str:
    with pytest.raises(KafkaWireError) as error:
        table_rows(kafka.bootstrap_servers("SASL_PLAINTEXT"), table, **as_alice(), **options)
    line = str(error.value)
    assert line.isprintable()
    assert USERS["alice"] not in line
    return line


@pytest.mark.parametrize("table", TABLES)
def test_a_user_without_rights_gets_an_error_that_names_the_acl(kafka: ApacheKafka, table: str) -> None:
    assert f"the user needs the ACL {REFUSED[table]}" in refusal(kafka, table)


def test_rights_on_a_topic_are_enough_for_what_needs_no_others(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, 1, None, {})
    librdkafka.produce(servers, topic, [Record(b"v", partition=0)])
    assert "Describe on the topics" in refusal(kafka, "partitions", subscribe=topic)
    acl = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:alice", "*")
    binding = AclBinding(*acl, AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_acls([binding]).values():
        future.result(timeout=GRACE_S)
    known = AclBindingFilter(*acl, AclOperation.ANY, AclPermissionType.ALLOW)
    poll(lambda: binding in admin.describe_acls(known).result(timeout=GRACE_S), "the right is known")
    alice = kafka.bootstrap_servers("SASL_PLAINTEXT")
    columns = ["topic", "partition", "earliest", "latest", "lastStable"]
    # Topics of other users are not there.
    assert table_rows(alice, "partitions", columns, **as_alice()) == [
        {"topic": topic, "partition": 0, "earliest": 0, "latest": 1, "lastStable": 1}
    ]
    assert "the user needs the ACL Describe on Cluster; or leave the column bytes out" in refusal(
        kafka, "partitions"
    )
    assert "the user needs the ACL DescribeConfigs on the topics" in refusal(
        kafka, "configs", subscribe=topic
    )
    assert "the user needs the ACL Read on the topics" in refusal(kafka, "producers", subscribe=topic)
