"""Brokers of Apache Kafka that form one cluster, each a KRaft node, broker and controller, on loopback.

    with ApacheCluster("4.1.1", folder, nodes=3) as cluster:
        cluster.kill(1)
        cluster.start(1)

They keep everything on as many nodes as there are, three at most, and go on while most of them run. What
they wait for is short: a node that died is missed after seconds, and a transaction that has had its time is
aborted within half a second.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from spark_kafkawire.broker.java import find_java
from spark_kafkawire.broker.processes import ChildProcess
from tests.support.noida import HOST, answers, free_ports

from .jars import broker_jars

#: Some seconds on an idle machine.
START_TIMEOUT_S: Final = 180.0
_CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
_JAVA_OPTIONS: Final = (
    "-Xmx320m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_PROPERTIES: Final = """\
process.roles=broker,controller
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
num.network.threads=2
num.io.threads=4
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=500
controller.quorum.election.timeout.ms=500
controller.quorum.fetch.timeout.ms=1500
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
"""


class ApacheCluster:
    """So many nodes of a version, numbered from 0."""

    def __init__(self, version: str, folder: Path, nodes: int) -> None:
        self.version = version
        ports = free_ports(2 * nodes)
        self.ports, self._controllers = ports[:nodes], ports[nodes:]
        self._folder = folder
        self._java = [str(find_java()), *_JAVA_OPTIONS, "-cp", f"{broker_jars(version)}/*"]
        self._processes: list[ChildProcess | None] = [None] * nodes

    def bootstrap_servers(self) -> str:
        """All nodes' addresses."""
        return ",".join(f"{HOST}:{port}" for port in self.ports)

    @property
    def plain_ports(self) -> tuple[int, ...]:
        """All nodes' ports."""
        return tuple(self.ports)

    @property
    def replicas(self) -> int:
        """On how many nodes everything is kept."""
        return min(3, len(self.ports))

    def start(self, node: int) -> None:
        """Start a node that does not run; it is not waited for."""
        assert self._processes[node] is None, f"node {node} runs already"
        folder = self._folder / f"node-{node}"
        properties = folder / "server.properties"
        if not properties.exists():
            folder.mkdir()
            properties.write_text(self._properties(node, folder))
            command = ["kafka.tools.StorageTool", "format", "--cluster-id", _CLUSTER_ID]
            done = subprocess.run(
                [*self._java, *command, "--config", str(properties)], capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout + done.stderr
        log = folder / "server.log"
        name = f"node {node} of Apache Kafka {self.version}"
        argv = [*self._java, "kafka.Kafka", str(properties)]
        self._processes[node] = ChildProcess(name, argv, output=log, log=log)

    def await_answer(self, node: int) -> None:
        """Wait until a node serves clients. Raises ``ConnectFailed`` where it does not."""
        process = self._processes[node]
        assert process is not None
        process.wait_until(lambda: answers(HOST, self.ports[node]) or None, "answering", START_TIMEOUT_S)

    def stop(self, node: int) -> None:
        """End a node in order: it gives what it leads to others first."""
        if process := self._processes[node]:
            process.stop()
            self._processes[node] = None

    def kill(self, node: int) -> None:
        """End a node as ``kill -9`` does."""
        if process := self._processes[node]:
            process.kill()
            self._processes[node] = None

    def is_running(self, node: int) -> bool:
        """True if the node was started, and has not ended since."""
        return self._processes[node] is not None

    def __enter__(self) -> ApacheCluster:
        try:
            for node in range(len(self.ports)):
                self.start(node)
            for node in range(len(self.ports)):
                self.await_answer(node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        for node in range(len(self.ports)):
            self.kill(node)

    def _properties(self, node: int, folder: Path) -> str:
        voters = (f"{each}@{HOST}:{port}" for each, port in enumerate(self._controllers))
        own = f"PLAINTEXT://{HOST}:{self.ports[node]}"
        kept = self.replicas
        lines = [
            _PROPERTIES,
            f"node.id={node}",
            f"controller.quorum.voters={','.join(voters)}",
            f"listeners={own},CONTROLLER://{HOST}:{self._controllers[node]}",
            f"advertised.listeners={own}",
            f"log.dirs={folder / 'data'}",
            f"offsets.topic.num.partitions={kept}",
            f"offsets.topic.replication.factor={kept}",
            f"transaction.state.log.num.partitions={kept}",
            f"transaction.state.log.replication.factor={kept}",
            f"transaction.state.log.min.isr={min(2, kept)}",
            f"min.insync.replicas={min(2, kept)}",
        ]
        return "\n".join(lines) + "\n"
