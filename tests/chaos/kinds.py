"""The clusters of the chaos: Apache Kafka, noida-db, and 0.7 brokers with ZooKeeper."""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
from collections.abc import Iterator
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

from . import topics, v07_logs
from .operations import Target
from .proxy import Upstream
from .v07_operations import BROKER_COUNT, PARTITION_COUNT
from .writing import PARTITION_COUNT as MODERN_PARTITION_COUNT

APACHE: Final = {"kafka-4.1": "4.1.1", "kafka-3.9": "3.9.1"}
NOIDA: Final = "noida-db"
V07: Final = "kafka-0.7"
KINDS: Final = (*APACHE, NOIDA, V07)
#: Between two disturbances of a 0.7 cluster, seconds.
_CALM_S: Final = (15.0, 40.0)


class Cluster:
    """A cluster that runs: what workers are told of it, and what happens to it now and then."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.disturbances = 0

    def disturb(self) -> None:
        """Called again and again while the workers work."""


class Skipped(Exception):
    """Why a kind cannot run on this machine, in one line."""


@contextlib.contextmanager
def running(kind: str, seed: str, workers: int) -> Iterator[Cluster]:
    """The cluster of a kind, its topics written. Raises ``Skipped``."""
    with contextlib.ExitStack() as stack:
        if kind == V07:
            yield stack.enter_context(_v07(seed, workers))
        elif kind == NOIDA:
            broker = stack.enter_context(NoidaBroker())
            ports: tuple[Upstream, ...] = (Upstream("broker", broker.port, "kafka"),)
            yield Cluster(_modern(kind, broker.bootstrap_servers, ports, seed, workers))
        else:
            apache = stack.enter_context(_apache(APACHE[kind]))
            ports = (
                Upstream("broker", apache.ports["PLAINTEXT"], "kafka"),
                Upstream("sasl", apache.ports["SASL_PLAINTEXT"], "kafka"),
            )
            yield Cluster(_modern(kind, apache.bootstrap_servers(), ports, seed, workers))


@contextlib.contextmanager
def _apache(version: str) -> Iterator[ApacheKafka]:
    try:
        find_java()
        broker_jars(version)
    except (OptionError, NoJars) as reason:
        raise Skipped(str(reason)) from reason
    if certificates.find_openssl() is None:
        raise Skipped("openssl makes the certificates, and is not in PATH")
    with tempfile.TemporaryDirectory(prefix="kafkawire-chaos-") as name:
        folder = Path(name)
        (folder / "tls").mkdir()
        with ApacheKafka(version, folder, certificates.make(folder / "tls")) as broker:
            yield broker


def _modern(kind: str, servers: str, upstreams: tuple[Upstream, ...], seed: str, workers: int) -> Target:
    truth = topics.prepare(servers, seed, is_apache=kind in APACHE)
    written = tuple(f"written-{index}" for index in range(workers))
    for name in written:
        librdkafka.create_topic(servers, MODERN_PARTITION_COUNT, name, {"retention.ms": "-1"})
    return Target(kind, upstreams, truth, written, servers)


class DisturbedCluster(Cluster):
    """0.7 brokers that are killed and start again, and a ZooKeeper that restarts, at drawn moments."""

    def __init__(self, target: Target, cluster: EmbeddedCluster, seed: str) -> None:
        super().__init__(target)
        self._cluster = cluster
        self._chance = random.Random(f"{seed} disturbances")
        self._next_s = time.monotonic() + self._chance.uniform(*_CALM_S)

    def disturb(self) -> None:
        """Kill and start something, when its time has come."""
        if time.monotonic() < self._next_s:
            return
        self.disturbances += 1
        if self._chance.random() < 0.5:
            broker = self._chance.choice(self._cluster.brokers)
            broker.kill()
            broker.start()
        else:
            assert self._cluster.zookeeper is not None
            self._cluster.zookeeper.stop()
            self._cluster.zookeeper.start()
        self._next_s = time.monotonic() + self._chance.uniform(*_CALM_S)


@contextlib.contextmanager
def _v07(seed: str, workers: int) -> Iterator[Cluster]:
    try:
        find_java()
    except OptionError as reason:
        raise Skipped(str(reason)) from reason
    properties = {
        "topic.log.file.size": f"{v07_logs.SEGMENTED}:{v07_logs.SEGMENT_BYTES}",
        # What a killed broker leaves in ZooKeeper goes soon, and it may register again.
        "zk.sessiontimeout.ms": "2000",
    }
    with EmbeddedCluster(BROKER_COUNT, PARTITION_COUNT, properties=properties) as cluster:
        assert cluster.zookeeper is not None
        ports = {broker.id: broker.port for broker in cluster.brokers}
        folders = {broker.id: broker.log_dir for broker in cluster.brokers}
        truth = v07_logs.prepare(ports, folders, seed)
        written = tuple(f"written-{index}" for index in range(workers))
        for name in written:
            for port in ports.values():
                replay.produce(port, (name, 0), message(b"the first message makes the topic"))
        upstreams = (
            Upstream("zookeeper", cluster.zookeeper.port, "zookeeper"),
            *(Upstream(f"broker {broker}", port, "kafka 0.7") for broker, port in ports.items()),
        )
        logs_in = {f"broker {broker}": folder for broker, folder in folders.items()}
        target = Target(V07, upstreams, truth, written, logs_in=logs_in)
        yield DisturbedCluster(target, cluster, seed)
