"""Topics whose records are in tiered storage, by Kafka's own storage for tests: a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.cluster import cluster_of
from spark_kafkawire.errors import DataLossError
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.options import ReadOptions
from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.foreign import Record
from tests.support.polling import poll
from tests.support.reading import Read

from .apache_kafka import ApacheKafka
from .versions import TIERED, needed_tiered_storage, needs_broker

pytestmark = pytest.mark.nightly
#: Records of most partitions, one a second; a segment has about 100. The last partition has one segment,
#: which is warm.
COUNT: Final = 400
COUNTS: Final = (COUNT, COUNT, COUNT, 10)
PARTITIONS: Final = len(COUNTS)
START_MS: Final = 1_700_000_000_000
_VALUE: Final = bytes(10_000)
_STORAGE: Final = "org.apache.kafka.server.log.remote"


class TieredKafka(ApacheKafka):
    """A broker with a folder for cold segments, which it moves there within a second."""

    def __init__(self, version: str, folder: Path, certificates: Certificates) -> None:
        self.folder = folder
        settings = f"""\
remote.log.storage.system.enable=true
remote.log.storage.manager.class.name={_STORAGE}.storage.LocalTieredStorage
remote.log.storage.manager.class.path={needed_tiered_storage(version)}
rsm.config.dir={folder / "cold"}
remote.log.metadata.manager.listener.name=PLAINTEXT
rlmm.config.remote.log.metadata.topic.replication.factor=1
rlmm.config.remote.log.metadata.topic.num.partitions=1
remote.log.manager.task.interval.ms=500
log.retention.check.interval.ms=500"""
        super().__init__(version, folder, certificates, settings=settings.splitlines())

    def cold_topic(self) -> str:
        """A topic of which only the active segments are on the broker's own disk."""
        servers = self.bootstrap_servers()
        config = {"remote.storage.enable": "true", "local.retention.bytes": "1", "retention.ms": "-1"}
        config |= {"segment.bytes": str(1 << 20), "file.delete.delay.ms": "0"}
        topic = librdkafka.create_topic(servers, PARTITIONS, topic_config=config)
        for location, count in enumerate(COUNTS):
            records = [
                Record(b"%d" % number + _VALUE, partition=location, timestamp_ms=START_MS + 1_000 * number)
                for number in range(count)
            ]
            librdkafka.produce(servers, topic, records, batch_size=20_000, enable_idempotence=True)

        def local() -> set[int]:
            return {len(list((self.folder / "data").glob(f"{topic}-{n}/*.log"))) for n in range(PARTITIONS)}

        poll(lambda: local() == {1}, "segments to be in the cold folder alone", 60.0)
        return topic


def everything() -> list[tuple[int, int]]:
    """Partition and offset of all records, in order."""
    return [(location, offset) for location, count in enumerate(COUNTS) for offset in range(count)]


@pytest.fixture(scope="module", params=TIERED)
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[TieredKafka]:
    needs_broker(request.param)
    broker = TieredKafka(request.param, tmp_path_factory.mktemp("tiered"), certificates)
    with broker:
        yield broker
        POOL.close_idle()


def test_cold_records_are_read_whole_in_order_and_in_packs(
    kafka: TieredKafka, subtests: pytest.Subtests
) -> None:
    """The last partition is warm."""
    topic, servers = kafka.cold_topic(), kafka.bootstrap_servers()
    for options, tasks in (({}, 4), ({"packSmallPartitions": "true"}, 1), ({"minPartitions": "16"}, 16)):
        with subtests.test(**options):
            result = Read(servers, subscribe=topic, **options)
            assert len(result.partitions) == tasks
            rows = result.rows()
            assert sorted((row["partition"], row["offset"]) for row in rows) == everything()
            assert all(row["value"].startswith(b"%d\0" % row["offset"]) for row in rows)


def test_a_start_by_time_is_found_in_cold_segments(kafka: TieredKafka) -> None:
    topic, servers = kafka.cold_topic(), kafka.bootstrap_servers()
    for number in (0, 1, COUNT // 3, COUNT - 1):
        since = {"startingTimestamp": str(START_MS + 1_000 * number - 500)}
        # The last partition has nothing so young.
        started = Read(servers, subscribe=topic, startingOffsetsByTimestampStrategy="latest", **since)
        assert {task.range.start_offset for task in started.tasks if task.range.size} == {number}
    assert len(started.rows()) == PARTITIONS - 1
    cluster = cluster_of(ReadOptions.parse({"kafka.bootstrap.servers": servers, "subscribe": topic}))
    partitions = cluster.partitions_of([topic])
    assert {item.earliest for item in cluster.bounds(partitions).values()} == {0}
    assert min(cluster.local_starts(partitions[:-1]).values()) > COUNT // 2


def test_cold_records_that_are_deleted_under_a_read_are_a_loss(kafka: TieredKafka) -> None:
    topic, servers = kafka.cold_topic(), kafka.bootstrap_servers()
    strict, loose = (Read(servers, subscribe=topic, failOnDataLoss=item) for item in ("true", "false"))
    librdkafka.delete_records(servers, topic, 0, COUNT // 2)
    with pytest.raises(DataLossError, match=rf"the log now holds \[{COUNT // 2}, {COUNT}\)"):
        strict.rows()
    left = [(row["partition"], row["offset"]) for row in loose.rows()]
    assert sorted(left) == [item for item in everything() if item >= (0, COUNT // 2)]
