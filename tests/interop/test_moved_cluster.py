"""A cluster whose brokers all move to new addresses, and an address at which another broker is meant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import BrokerError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.options import ReadOptions
from tests.support import librdkafka, ours
from tests.support.certificates import Certificates
from tests.support.foreign import Record
from tests.support.noida import free_ports
from tests.support.reading import Read
from tests.support.streaming import QUICK, Checkpoint, Query

from .apache_kafka import ApacheKafka
from .versions import NEWEST, VERSIONS, needs_broker

pytestmark = pytest.mark.nightly


class MovingKafka(ApacheKafka):
    """A broker that starts again at other ports, with its data."""

    def __init__(self, version: str, folder: Path, certificates: Certificates) -> None:
        super().__init__(version, folder, certificates)
        self._file = folder / "server.properties"

    def move_to(self, ports: dict[str, int]) -> None:
        self.stop()
        self.ports = ports
        self._file.write_text(self._properties())
        self.start()


def moving(version: str, folder: Path, certificates: Certificates) -> tuple[MovingKafka, dict[str, int]]:
    """A broker, and the ports that it moves to later."""
    needs_broker(version)
    kafka = MovingKafka(version, folder, certificates)
    return kafka, dict(zip(kafka.ports, free_ports(len(kafka.ports)), strict=True))


@pytest.mark.parametrize("version", VERSIONS)
def test_streams_reads_and_writes_follow_a_cluster_that_moves(
    version: str, tmp_path: Path, certificates: Certificates
) -> None:
    kafka, later = moving(version, tmp_path, certificates)
    with kafka:
        old = kafka.bootstrap_servers()
        topic = librdkafka.create_topic(old)
        servers = f"{old},127.0.0.1:{later['PLAINTEXT']}"
        options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
        query = Query(Checkpoint(), **QUICK, **options, kafka__group__id="g", commitOffsets="true")
        values = [b"%d" % number for number in range(20)]
        ours.produce(servers, topic, map(Record, values[:10]))
        assert [row["value"] for row in query.batch() or ()] == values[:10]
        planned = Read(servers, subscribe=topic)
        kafka.move_to(later)
        ours.produce(servers, topic, map(Record, values[10:]))
        assert [row["value"] for row in query.batch() or ()] == values[10:]
        assert planned.column("value") == values[:10]
        POOL.close_idle()


def test_a_broker_of_the_newest_kafka_refuses_who_means_another_one(
    tmp_path: Path, certificates: Certificates
) -> None:
    kafka, _ = moving(NEWEST, tmp_path, certificates)
    with kafka:
        servers = kafka.bootstrap_servers()
        topic = librdkafka.create_topic(servers)
        options = ReadOptions.parse({"kafka.bootstrap.servers": servers, "subscribe": topic})
        metadata = Metadata(options.discovery.bootstrap_servers, options.net)
        leader = metadata.leader_of(TopicPartition(topic, 0)).broker
        settings = options.net.connection
        Client.connect(leader, settings).close()
        other, elsewhere = replace(leader, id=2), replace(settings, cluster_id="another")
        for broker, meant in ((other, settings), (leader, elsewhere)):
            with pytest.raises(BrokerError, match="REBOOTSTRAP_REQUIRED"):
                Client.connect(broker, meant).close()
        # Who believes in that other broker looks up the cluster again.
        metadata._last_server = other
        metadata.refresh([topic])
        assert metadata._last_server in options.discovery.bootstrap_servers
        POOL.close_idle()
