"""The clusters of the chaos: Apache Kafka, noida-db, and 0.7 brokers with ZooKeeper."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.broker.java import find_java
from spark_kafkawire.errors import OptionError
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.jars import NoJars, broker_jars
from tests.support import certificates, librdkafka, replay
from tests.support.message_sets import message
from tests.support.noida import NoidaBroker

from . import topics, v07
from .operations import Target
from .proxy import Upstream
from .writing import PARTITION_COUNT

#: Between two disturbances of a 0.7 cluster, seconds.
_CALM_S: Final = (15.0, 40.0)

#: A running cluster: what workers get of it, and a function that runs again and again while they work.
Running = tuple[Target, Callable[[], None]]


class Skipped(Exception):
    """Why a cluster cannot run on this machine, in one line."""


def running(name: str, seed: int, workers: int) -> AbstractContextManager[Running]:
    """The cluster of that name, its topics written. Raises ``Skipped``."""
    return CLUSTERS[name](name, seed, workers)


@contextmanager
def _noida(name: str, seed: int, workers: int) -> Iterator[Running]:
    with NoidaBroker() as broker:
        ports = (Upstream("broker", broker.port, "kafka"),)
        yield _modern(name, broker.bootstrap_servers, ports, seed, workers), _nothing


@contextmanager
def _apache(version: str, name: str, seed: int, workers: int) -> Iterator[Running]:
    try:
        find_java()
        broker_jars(version)
    except (OptionError, NoJars) as reason:
        raise Skipped(str(reason)) from reason
    with tempfile.TemporaryDirectory(prefix="kafkawire-chaos-") as folder:
        tls = Path(folder) / "tls"
        tls.mkdir()
        with ApacheKafka(version, Path(folder), certificates.make(tls)) as broker:
            ports = (
                Upstream("broker", broker.ports["PLAINTEXT"], "kafka"),
                Upstream("sasl", broker.ports["SASL_PLAINTEXT"], "kafka"),
            )
            yield _modern(name, broker.bootstrap_servers(), ports, seed, workers), _nothing


def _nothing() -> None:
    """Disturb nothing: the cluster is left alone."""


def _modern(name: str, servers: str, upstreams: tuple[Upstream, ...], seed: int, workers: int) -> Target:
    truth = topics.prepare(servers, str(seed), is_apache=len(upstreams) > 1)
    written = tuple(f"written-{index}" for index in range(workers))
    for topic in written:
        librdkafka.create_topic(servers, PARTITION_COUNT, topic, {"retention.ms": "-1"})
    return Target(name, upstreams, truth, written, servers)


@contextmanager
def _v07(name: str, seed: int, workers: int) -> Iterator[Running]:
    try:
        find_java()
    except OptionError as reason:
        raise Skipped(str(reason)) from reason
    properties = {
        "topic.log.file.size": f"{v07.SEGMENTED}:{v07.SEGMENT_BYTES}",
        # What a killed broker leaves in ZooKeeper goes soon, and it may register again.
        "zk.sessiontimeout.ms": "2000",
    }
    with EmbeddedCluster(v07.BROKER_COUNT, v07.PARTITION_COUNT, properties=properties) as cluster:
        assert cluster.zookeeper is not None
        ports = {broker.id: broker.port for broker in cluster.brokers}
        folders = {broker.id: broker.log_dir for broker in cluster.brokers}
        truth = v07.prepare(ports, folders, str(seed))
        written = tuple(f"written-{index}" for index in range(workers))
        for topic in written:
            for port in ports.values():
                replay.produce(port, (topic, 0), message(b"the first message makes the topic"))
        upstreams = (
            Upstream("zookeeper", cluster.zookeeper.port, "zookeeper"),
            *(Upstream(f"broker {broker}", port, "kafka 0.7") for broker, port in ports.items()),
        )
        yield Target(name, upstreams, truth, written, logs_in=folders), _Disturbances(cluster, seed)


class _Disturbances:
    """0.7 brokers that are killed and start again, and a ZooKeeper that restarts, at drawn moments."""

    def __init__(self, cluster: EmbeddedCluster, seed: int) -> None:
        self._cluster, self._chance = cluster, random.Random(f"{seed} disturbances")
        self._next_s = time.monotonic() + self._chance.uniform(*_CALM_S)

    def __call__(self) -> None:
        """Kill and start something, when its time has come."""
        if time.monotonic() < self._next_s:
            return
        if self._chance.random() < 0.5:
            broker = self._chance.choice(self._cluster.brokers)
            broker.kill()
            broker.start()
        else:
            assert self._cluster.zookeeper is not None
            self._cluster.zookeeper.stop()
            self._cluster.zookeeper.start()
        self._next_s = time.monotonic() + self._chance.uniform(*_CALM_S)


CLUSTERS: Final[dict[str, Callable[[str, int, int], AbstractContextManager[Running]]]] = {
    "kafka-4.1": partial(_apache, "4.1.1"),
    "kafka-3.9": partial(_apache, "3.9.1"),
    "noida-db": _noida,
    "kafka-0.7": _v07,
}
