"""Brokers and ZooKeeper that are killed and started again: with all options at their defaults, reads, plans
and writes wait for them, say so once, and come to exactly the same rows."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from spark_kafkawire.broker import EmbeddedCluster, ZooKeeperServer
from spark_kafkawire.errors import BrokersMissingError, KafkaWireError, OptionError
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.options import ReadOptions, WriteOptions
from spark_kafkawire.planner.batch import plan
from spark_kafkawire.source.schema import V07_SCHEMA
from spark_kafkawire.source.writer import create_writer
from tests.support import librdkafka, zookeeper_tree
from tests.support.debian_plain import COUNT, NAMES, TOPIC
from tests.support.embedded import SharingCluster
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.reading import PlannedRead

#: Small fetches, so that a partition is many of them.
SMALL = {"fetchBytes": "1KiB", "fetchesInFlight": "1"}


#: How long it stays away after it is missed, seconds: several times what three retries take.
AWAY_S: Final = 1.5


class Reported(logging.Handler):
    """Handler that keeps the package's log messages. The first warning begins the restart."""

    def __init__(self, pool: ThreadPoolExecutor, start: Callable[[], None]) -> None:
        super().__init__(logging.INFO)
        self.warnings: list[str] = []
        self.infos: list[str] = []
        self._pool, self._start = pool, start
        self.restart: Future[None] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        is_warning = record.levelno >= logging.WARNING
        (self.warnings if is_warning else self.infos).append(record.getMessage())
        if is_warning and self.restart is None:
            self.restart = self._pool.submit(self._come_back)

    def _come_back(self) -> None:
        time.sleep(AWAY_S)
        self._start()


@contextlib.contextmanager
def coming_back(start: Callable[[], None]) -> Iterator[Reported]:
    """Call ``start`` some seconds after the package's first warning in the block."""
    logger = logging.getLogger("spark_kafkawire")
    level = logger.level
    logger.setLevel(logging.INFO)
    with ThreadPoolExecutor(1) as pool:
        reported = Reported(pool, start)
        logger.addHandler(reported)
        try:
            yield reported
            assert reported.restart is not None, "no warning was logged"
            reported.restart.result()
        finally:
            logger.removeHandler(reported)
            logger.setLevel(level)


def loaded(cluster: EmbeddedCluster, **options: str) -> PlannedRead:
    return PlannedRead({"zookeeper.connect": cluster.zookeeper_connect, "subscribe": TOPIC, **options})


def test_a_read_of_07_goes_on_where_its_broker_was_killed(cluster: EmbeddedCluster) -> None:
    expected = loaded(cluster).rows()
    assert len(expected) == COUNT
    read = loaded(cluster, **SMALL)
    batches = read.batches()
    first = next(batches)
    cluster.brokers[0].kill()
    with coming_back(cluster.brokers[0].start) as reported:
        result = pa.Table.from_batches([first, *batches]).to_pylist()
    assert result == expected
    [warning], [info] = reported.warnings, [line for line in reported.infos if not line.startswith("read ")]
    assert [line for line in reported.infos if re.search(r"^read .*, [1-9]\d* retr(y|ies)$", line)]
    port = cluster.brokers[0].port
    assert re.search(
        rf"broker 0 \(127\.0\.0\.1:{port}\): .*; trying again for up to 60 s \(brokerDownTimeout\)$", warning
    )
    assert info.startswith("continuing after ")


#: Options that name the brokers.
KNOWN: Final = [
    {"assign": json.dumps({TOPIC: ["0-0", "1-2"]})},
    {"subscribe": TOPIC, "startingOffsets": json.dumps({TOPIC: dict.fromkeys(NAMES, 0)})},
    {"subscribe": TOPIC, "expectedBrokers": "2"},
    {"subscribe": TOPIC, "expectedBrokers": "0,1"},
]


def test_planning_waits_for_brokers_that_it_knows_of(cluster: EmbeddedCluster) -> None:
    given = [{"zookeeper.connect": cluster.zookeeper_connect, **options} for options in KNOWN]
    expected = [PlannedRead(options).rows() for options in given]
    cluster.brokers[1].stop()
    with coming_back(cluster.brokers[1].start) as reported, ThreadPoolExecutor(len(given)) as pool:
        reads = [*pool.map(PlannedRead, given)]
    assert [read.rows() for read in reads] == expected
    assert len(reported.warnings) == len(reported.infos) == len(given)
    for warning in reported.warnings:
        assert warning.endswith("; trying again for up to 60 s (brokerDownTimeout)")


def test_planning_waits_for_a_first_broker_and_says_that_others_may_follow(
    zookeeper: ZooKeeperServer, log_dirs: list[Path]
) -> None:
    with SharingCluster(zookeeper, log_dirs[:1]) as alone:
        expected = loaded(alone).rows()
        alone.brokers[0].stop()
        with coming_back(alone.brokers[0].start) as reported:
            read = loaded(alone)
        assert read.rows() == expected
    assert "correct zookeeper.connect; trying again for up to 60 s" in reported.warnings[0]
    assert reported.warnings[1:] == [
        "broker 0 has just come back; other brokers may still be starting, and their partitions would not be "
        "read: list all brokers in the option expectedBrokers"
    ]


def test_planning_waits_for_zookeeper_and_a_planned_read_does_not_miss_it(log_dirs: list[Path]) -> None:
    with EmbeddedCluster(brokers=2, partitions=3, log_dirs=log_dirs) as cluster:
        read = loaded(cluster)
        zookeeper = cluster.zookeeper
        assert zookeeper is not None
        zookeeper.kill()
        expected = read.rows()
        assert len(expected) == COUNT
        with coming_back(zookeeper.start) as reported:
            read = loaded(cluster)
        assert read.rows() == expected
        where = rf"option zookeeper\.connect: {zookeeper.connect}: "
    assert re.match(f"{where}no session yet.*; trying again for up to 60 s", reported.warnings[0])
    assert re.match(f"{where}session established after ", reported.infos[0])


def test_a_write_of_07_waits_for_a_broker_before_it_sends(cluster: EmbeddedCluster) -> None:
    options = WriteOptions.parse({"zookeeper.connect": cluster.zookeeper_connect, "topic": TOPIC})
    writer = create_writer(options, V07_SCHEMA, overwrite=False)
    before = loaded(cluster).rows()
    for broker in cluster.brokers:
        broker.kill()

    def start() -> None:
        for broker in cluster.brokers:
            broker.start()

    values = pa.array([b"after the restart"], pa.binary())
    with coming_back(start):
        message = writer.write(iter([pa.record_batch([values], ["value"])]))
    assert message.totals.retried_count > 0
    after = loaded(cluster).rows()
    assert sorted(row["value"] for row in after) == sorted(
        [*(row["value"] for row in before), b"after the restart"]
    )


def test_planning_waits_for_the_brokers_of_today() -> None:
    with NoidaBroker() as modern:
        modern.create_topic(name="t")
        librdkafka.produce(modern.bootstrap_servers, "t", [Record(b"v")])
        options = {"kafka.bootstrap.servers": modern.bootstrap_servers, "subscribe": "t"}
        expected = PlannedRead(options).rows()
        modern.stop()
        POOL.close_idle()
        with coming_back(modern.start) as reported:
            read = PlannedRead(options)
        assert read.rows() == expected
    assert len(reported.warnings) == len(reported.infos) == 1
    assert re.match(
        rf"kafka\.bootstrap\.servers: no server answers; .*\({options['kafka.bootstrap.servers']}\): cannot "
        r"connect: .*; trying again for up to 60 s \(brokerDownTimeout\)$",
        reported.warnings[0],
    )


def expired(
    cluster: EmbeddedCluster, broker_id: int, *, topics_only: bool = False
) -> AbstractContextManager[None]:
    return zookeeper_tree.expired(cluster.zookeeper_connect, broker_id, topics_only=topics_only)


def written(cluster: EmbeddedCluster, **options: str) -> WriteOptions:
    """Options of a write that does not wait."""
    given = {
        "zookeeper.connect": cluster.zookeeper_connect,
        "topic": TOPIC,
        "brokerDownTimeout": "0s",
        "retries": "1",
    }
    return WriteOptions.parse({**given, **options})


def hasty(cluster: EmbeddedCluster, **options: str) -> ReadOptions:
    """Options of a read that does not wait."""
    given = {"zookeeper.connect": cluster.zookeeper_connect, "brokerDownTimeout": "0s", "retries": "1"}
    return ReadOptions.parse({**given, **options})


@pytest.mark.parametrize(
    ("expected", "reported"),
    [
        ("2", "1 of 2 brokers are registered in ZooKeeper: 0; start the missing ones"),
        ("0,1", "all but 1 are registered in ZooKeeper: 0; start the missing ones"),
    ],
)
def test_a_broker_whose_session_has_expired_is_missed_by_who_expects_it(
    cluster: EmbeddedCluster, expected: str, reported: str, caplog: pytest.LogCaptureFixture
) -> None:
    with expired(cluster, 1):
        silent = plan(hasty(cluster, subscribe=TOPIC))
        assert {task.range.topic_partition.broker for task in silent} == {0}  # nobody can know of the others
        with pytest.raises(BrokersMissingError, match=re.escape(f"option expectedBrokers: {reported}")):
            plan(hasty(cluster, subscribe=TOPIC, expectedBrokers=expected))
        borne = plan(hasty(cluster, subscribe=TOPIC, expectedBrokers=expected, failOnDataLoss="false"))
        assert borne == silent
        assert caplog.messages[-1].endswith(f"{reported}; reading the others because failOnDataLoss=false")
        with pytest.raises(BrokersMissingError, match=re.escape(f"option expectedBrokers: {reported}")):
            create_writer(written(cluster, expectedBrokers=expected), V07_SCHEMA, overwrite=False)
    assert len(plan(hasty(cluster, subscribe=TOPIC, expectedBrokers=expected))) == 6


@pytest.mark.parametrize("expected", ["1", "1,0,2"])
def test_report_other_brokers_than_expected(cluster: EmbeddedCluster, expected: str) -> None:
    with pytest.raises(KafkaWireError, match=r"option expectedBrokers: ") as error:
        plan(hasty(cluster, subscribe=TOPIC, expectedBrokers=expected))
    assert isinstance(error.value, OptionError if expected == "1" else BrokersMissingError)


def test_assigned_to_missing_broker(cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    assign = json.dumps({TOPIC: ["0-0", "1-2"]})
    with expired(cluster, 1):
        with pytest.raises(
            BrokersMissingError, match=r"broker 1 is not registered in ZooKeeper and holds 1 of"
        ):
            plan(hasty(cluster, assign=assign))
        [task] = plan(hasty(cluster, assign=assign, failOnDataLoss="false"))
        assert task.range.topic_partition.name == "0-0"
        assert caplog.messages[-1].endswith("reading the others because failOnDataLoss=false")


def test_starting_broker_is_asked_for_its_topics(cluster: EmbeddedCluster) -> None:
    whole = plan(hasty(cluster, subscribe=TOPIC))
    with expired(cluster, 1, topics_only=True):
        assert len(plan(hasty(cluster, subscribe=TOPIC))) == 3
        assert plan(hasty(cluster, subscribe=TOPIC, expectedBrokers="2")) == whole
        assert len(plan(hasty(cluster, assign=json.dumps({TOPIC: ["1-0"]})))) == 1
        writer = create_writer(written(cluster, expectedBrokers="0,1"), V07_SCHEMA, overwrite=False)
        assert len(writer.partitions_of(TOPIC)) == 6


def test_report_a_topic_without_a_broker(cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    with expired(cluster, 0, topics_only=True), expired(cluster, 1, topics_only=True):
        with pytest.raises(
            BrokersMissingError, match=f"no broker announces the topic {TOPIC}, which ZooKeeper still lists"
        ):
            plan(hasty(cluster, subscribe=TOPIC))
        assert not plan(hasty(cluster, subscribePattern=TOPIC))
    assert any(
        "which ZooKeeper still lists: the topics were deleted, or their brokers" in item
        for item in caplog.messages
    )
