"""Members of share groups (KIP-932) beside what Kafka's own AdminClient says of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

from spark_kafkawire.broker.java import find_java
from spark_kafkawire.net.pool import POOL
from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.foreign import Record
from tests.support.table_reading import table_rows

from .apache_kafka import ApacheKafka
from .jars import broker_jars
from .needs import needs_broker
from .versions import NEWEST

ONE_NODE: Final = (
    "share.coordinator.state.topic.num.partitions=1",
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
)


def test_members_of_a_share_group_are_those_of_kafkas_admin_client(
    tmp_path: Path, certificates: Certificates
) -> None:
    needs_broker(NEWEST)
    with ApacheKafka(NEWEST, tmp_path, certificates, settings=ONE_NODE) as kafka:
        servers = kafka.bootstrap_servers()
        topic = librdkafka.create_topic(servers, 3)
        librdkafka.produce(servers, topic, [Record(b"v")])
        source = Path(__file__).with_name("ShareGroupJudge.java")
        command = [str(find_java()), "-cp", f"{broker_jars(NEWEST)}/*", str(source)]
        member = subprocess.Popen(
            [*command, servers, topic, "sharing"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            assert member.stdout is not None
            judged = json.loads(member.stdout.readline())
            [group] = table_rows(servers, "groups", kafka__group__id="sharing")
            members = table_rows(servers, "group_members", kafka__group__id="sharing")
        finally:
            member.communicate()
        assert members == judged["members"]
        assert members[0]["clientId"] == "the share client"
        assert [each["partition"] for each in members[0]["assignment"]] == [0, 1, 2]
        assert (group["type"], group["protocolType"], group["members"]) == ("share", "share", 1)
        assert (group["state"], group["coordinator"]) == (judged["state"], judged["coordinator"])
        [empty] = table_rows(servers, "groups", kafka__group__id="sharing")
        assert (empty["state"], empty["members"]) == ("Empty", 0)
        assert table_rows(servers, "group_members", kafka__group__id="sharing") == []
    POOL.close_idle()
