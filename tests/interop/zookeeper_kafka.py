"""Apache Kafka's brokers of the years 2015 to 2022, which need a ZooKeeper: one node on loopback.

with ZooKeeperKafka("0.8.2.2", folder, zookeeper.connect) as broker:
    broker.bootstrap_servers
"""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Final

from spark_kafkawire.broker.java import find_java
from spark_kafkawire.broker.processes import ChildProcess
from tests.support.noida import HOST, free_port

from .jars import broker_jars

START_TIMEOUT_S: Final = 120.0
_JAVA_OPTIONS: Final = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
# Brokers before 0.9 know no listeners, those of 3 know nothing else.
_PROPERTIES: Final = """\
broker.id=0
host.name={host}
advertised.host.name={host}
port={port}
log.dirs={folder}/data
zookeeper.connect={zookeeper}
num.partitions=1
num.network.threads=2
num.io.threads=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.enable=false
controlled.shutdown.enable=false
"""
# Those of before 2.0 log with log4j itself, which says nothing unless it is told where.
_LOG4J: Final = """\
log4j.rootLogger=WARN, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.Target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%p %c %m%n
"""
# Metadata of all topics, version 0, correlation id 7, no client id; and how the answer begins. It names
# no broker before 0.9, as long as there is no topic.
_METADATA: Final = bytes.fromhex("0000000e 0003 0000 00000007 ffff 00000000")
_ANSWER: Final = bytes.fromhex("00000007")


class ZooKeeperKafka:
    """A broker from ``start`` (or ``with``) to ``kill``; topics come to be when they are asked for."""

    def __init__(self, version: str, folder: Path, zookeeper: str) -> None:
        self.version = version
        self.port = free_port()
        self._folder = folder
        self._zookeeper = zookeeper
        self._process: ChildProcess | None = None

    @property
    def release(self) -> tuple[int, ...]:
        """Its version, to compare with others."""
        return tuple(int(number) for number in self.version.split("."))

    @property
    def bootstrap_servers(self) -> str:
        """Its address: ``host:port``."""
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises ``NoJars`` and ``OptionError`` where Maven or Java is missing, ``ConnectFailed`` when it does
        not start.
        """
        assert self._process is None, "Apache Kafka runs already"
        properties, log4j = self._folder / "server.properties", self._folder / "log4j.properties"
        log4j.write_text(_LOG4J)
        properties.write_text(
            _PROPERTIES.format(
                host=HOST,
                port=self.port,
                folder=self._folder,
                zookeeper=f"{self._zookeeper}/kafka-{self.version}",
            )
        )
        log = self._folder / "server.log"
        argv = [str(find_java()), *_JAVA_OPTIONS, f"-Dlog4j.configuration=file:{log4j}"]
        argv += ["-cp", f"{broker_jars(self.version)}/*", "kafka.Kafka", str(properties)]
        self._process = ChildProcess(f"Apache Kafka {self.version}", argv, output=log, log=log)
        self._process.wait_until(
            lambda: True if answers_metadata(HOST, self.port) else None, "answering", START_TIMEOUT_S
        )

    def kill(self) -> None:
        """End it as ``kill -9`` does."""
        if self._process:
            self._process.kill()
            self._process = None

    def __enter__(self) -> ZooKeeperKafka:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()


def answers_metadata(host: str, port: int, timeout_s: float = 5.0) -> bool:
    """True if a broker of any age answers."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout_s) as sock:
        sock.sendall(_METADATA)
        with sock.makefile("rb") as answer:
            return answer.read(4 + len(_ANSWER))[4:] == _ANSWER
    return False
