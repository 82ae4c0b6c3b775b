"""Apache Kafka's own brokers in processes: one KRaft node on loopback with all kinds of listeners, several
nodes of a cluster, or an old broker with a ZooKeeper.

    with ApacheKafka("3.9.1", folder, certificates) as broker:
        broker.bootstrap_servers("SASL_SSL")
    with ZooKeeperKafka("0.8.2.2", folder, zookeeper.connect) as broker:
        broker.bootstrap_servers

Users are ``USERS``, for PLAIN and for both kinds of SCRAM; OAUTHBEARER takes unsecured tokens. The TLS
listeners are named ``localhost`` and take a client's certificate; MTLS demands one.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from spark_kafkawire.broker.cluster import ChildProcess, find_java
from tests.support.certificates import SERVER_NAME, Certificates
from tests.support.noida import HOST, answers, free_port, free_ports, listens

from .jars import broker_jars

#: A second and a half on an idle machine, some seconds for several nodes.
START_TIMEOUT_S: Final = 180.0
#: The second password has what JAAS lines and SCRAM's messages use as signs of their own, the third one
#: what a normalised text would not have.
USERS: Final = {
    "alice": "alice-secret",
    "bob": "bob; s\N{LATIN SMALL LETTER E WITH ACUTE}cret=1",
    "carol": "carol\N{NO-BREAK SPACE}s\N{OHM SIGN}cret",
}

#: Each listener's name with the security protocol that it speaks.
LISTENERS: Final = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MTLS": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}
_CONTROLLER: Final = "CONTROLLER"
#: The protocol of consumer groups that brokers coordinate themselves (KIP-848).
NEW_PROTOCOL_SINCE: Final = "4"
_CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
_JAVA_OPTIONS: Final = ("-Xmx320m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
#: Without the second compiler it starts sooner, and serves slower.
_STARTS_SOON: Final = "-XX:TieredStopAtLevel=1"
# Small internal topics and no wait for more members: it starts and answers sooner. The log cleaner
# looks often, so that a test of compaction need not wait for it.
_PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
num.network.threads=2
num.io.threads=2
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=200
log.initial.task.delay.ms=500
ssl.keystore.type=PEM
ssl.truststore.type=PEM
ssl.client.auth=requested
listener.name.mtls.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
"""
#: How long a login by SCRAM-SHA-256 lasts without TLS, ms; all others last as long as their connection.
LOGIN_MS: Final = 2_000
_SECURITY: Final = "org.apache.kafka.common.security"


class ApacheKafka:
    """A broker, and controller of itself, from ``start`` (or ``with``) to ``stop``. With ``full_jit`` it is
    as fast as one in service; ``settings`` are more lines of its properties, ``java_options`` of its JVM."""

    def __init__(
        self,
        version: str,
        folder: Path,
        certificates: Certificates,
        *,
        full_jit: bool = False,
        settings: Sequence[str] = (),
        java_options: Sequence[str] = (),
    ) -> None:
        self.version = version
        self._java_options = (*_JAVA_OPTIONS, *(() if full_jit else (_STARTS_SOON,)), *java_options)
        names = (*LISTENERS, _CONTROLLER)
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        self._settings = settings
        self._folder = folder
        self._certificates = certificates
        self._process: ChildProcess | None = None

    def bootstrap_servers(self, listener: str = "PLAINTEXT") -> str:
        """The address of a listener: ``host:port``."""
        host = SERVER_NAME if LISTENERS[listener].endswith("SSL") else HOST
        return f"{host}:{self.ports[listener]}"

    @property
    def plain_ports(self) -> tuple[int, ...]:
        """The port without TLS and login, of the only node."""
        return (self.ports["PLAINTEXT"],)

    def start(self) -> None:
        """Start it and wait until all its listeners take connections.

        Raises ``NoJars`` and ``OptionError`` where Maven or Java is missing, ``ConnectFailed`` when it does
        not start.
        """
        assert self._process is None, "Apache Kafka runs already"
        java = [str(find_java()), *self._java_options, "-cp", f"{broker_jars(self.version)}/*"]
        properties = self._folder / "server.properties"
        if not properties.exists():
            properties.write_text(self._properties())
            scram = [
                f'{mechanism}=[name="{user}",password="{password}"]'
                for user, password in USERS.items()
                for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            ]
            _format(java, properties, *(word for item in scram for word in ("--add-scram", item)))
        log = self._folder / "server.log"
        self._process = ChildProcess(
            f"Apache Kafka {self.version}", [*java, "kafka.Kafka", str(properties)], output=log, log=log
        )
        self._process.wait_until(self._answering, "answering", START_TIMEOUT_S)

    def _answering(self) -> bool | None:
        # Its listeners open one after another once it is ready, those with logins later than PLAINTEXT.
        plain = ("PLAINTEXT", "SASL_PLAINTEXT")
        are_open = all(listens(HOST, port) for port in self.ports.values())
        return True if are_open and all(answers(HOST, self.ports[name]) for name in plain) else None

    def _properties(self) -> str:
        addresses = [f"{name}://{HOST}:{port}" for name, port in self.ports.items()]
        advertised = [f"{name}://{self.bootstrap_servers(name)}" for name in LISTENERS]
        protocols = [f"{name}:{protocol}" for name, protocol in LISTENERS.items()]
        lines = [
            _PROPERTIES,
            f"controller.quorum.voters=1@{HOST}:{self.ports[_CONTROLLER]}",
            f"listeners={','.join(addresses)}",
            f"advertised.listeners={','.join(advertised)}",
            f"listener.security.protocol.map={','.join(protocols)},{_CONTROLLER}:PLAINTEXT",
            f"log.dirs={self._folder / 'data'}",
            f"ssl.keystore.location={self._certificates.server}",
            f"ssl.truststore.location={self._certificates.authority}",
            f"listener.name.sasl_plaintext.scram-sha-256.connections.max.reauth.ms={LOGIN_MS}",
            *(line for name in ("sasl_plaintext", "sasl_ssl") for line in _logins(name)),
            *self._settings,
        ]
        return "\n".join(lines) + "\n"

    def stop(self) -> None:
        """Stop it in order; ``start`` goes on with ports and data."""
        if self._process:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """End it as ``kill -9`` does."""
        if self._process:
            self._process.kill()
            self._process = None

    def __enter__(self) -> ApacheKafka:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()


def _logins(listener: str) -> list[str]:
    """The lines that say who may log in, by which mechanism."""
    modules = {
        "plain": f"{_SECURITY}.plain.PlainLoginModule required {_plain_users()}",
        "scram-sha-256": f"{_SECURITY}.scram.ScramLoginModule required",
        "scram-sha-512": f"{_SECURITY}.scram.ScramLoginModule required",
        "oauthbearer": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required"
        ' unsecuredLoginStringClaim_sub="broker"',
    }
    return [
        f"listener.name.{listener}.{mechanism}.sasl.jaas.config={module};"
        for mechanism, module in modules.items()
    ]


def _plain_users() -> str:
    # A properties file is Latin-1, other characters are escaped.
    users = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
    return "".join(sign if sign.isascii() else f"\\u{ord(sign):04x}" for sign in users)


def _format(java: Sequence[str], properties: Path, *words: str) -> None:
    command = [*java, "kafka.tools.StorageTool", "format", "--cluster-id", _CLUSTER_ID]
    done = subprocess.run([*command, "--config", str(properties), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


_CLUSTER_PROPERTIES: Final = """\
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


_NEAREST: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class ApacheCluster:
    """So many nodes of a version, numbered from 0, each a broker and controller, on loopback.

        with ApacheCluster("4.1.1", folder, nodes=3) as cluster:
            cluster.kill(1)
            cluster.start(1)

    They keep everything on as many nodes as there are, three at most, and go on while most of them run. What
    they wait for is short: a node that died is missed after seconds, and a transaction that has had its time
    is aborted within half a second. With ``racks``, one of each node, leaders name followers in the client's
    rack; ``advertised`` are ports that clients are sent to in place of the nodes' own.
    """

    def __init__(
        self,
        version: str,
        folder: Path,
        nodes: int,
        racks: Sequence[str] = (),
        advertised: Sequence[int] = (),
    ) -> None:
        self.version = version
        self._racks, self._advertised = racks, advertised
        ports = free_ports(2 * nodes)
        self.ports, self._controllers = ports[:nodes], ports[nodes:]
        self._folder = folder
        self._java = [str(find_java()), *_JAVA_OPTIONS, _STARTS_SOON, "-cp", f"{broker_jars(version)}/*"]
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
            _format(self._java, properties)
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

    def pid(self, node: int) -> int:
        """The process of a node that runs."""
        process = self._processes[node]
        assert process is not None
        return process.pid

    @contextlib.contextmanager
    def frozen(self, node: int) -> Iterator[None]:
        """A node that hangs during the block: its connections stay open and silent."""
        process = self._processes[node]
        assert process is not None
        process.pause()
        try:
            yield
        finally:
            process.resume()

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
        voters = (f"{item}@{HOST}:{port}" for item, port in enumerate(self._controllers))
        own = f"PLAINTEXT://{HOST}:{self.ports[node]}"
        advertised = self._advertised[node] if self._advertised else self.ports[node]
        racks = (
            [f"broker.rack={self._racks[node]}", f"replica.selector.class={_NEAREST}"] if self._racks else []
        )
        kept = self.replicas
        lines = [
            _CLUSTER_PROPERTIES,
            f"node.id={node}",
            f"controller.quorum.voters={','.join(voters)}",
            f"listeners={own},CONTROLLER://{HOST}:{self._controllers[node]}",
            f"advertised.listeners=PLAINTEXT://{HOST}:{advertised}",
            *racks,
            f"log.dirs={folder / 'data'}",
            f"offsets.topic.num.partitions={kept}",
            f"offsets.topic.replication.factor={kept}",
            f"transaction.state.log.num.partitions={kept}",
            f"transaction.state.log.replication.factor={kept}",
            f"transaction.state.log.min.isr={min(2, kept)}",
            f"min.insync.replicas={min(2, kept)}",
        ]
        return "\n".join(lines) + "\n"


# Brokers before 0.9 know no listeners, those of 3 know nothing else.
_OLD_PROPERTIES: Final = """\
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
    """A broker of the years 2015 to 2022, which needs a ZooKeeper, from ``start`` (or ``with``) to ``kill``;
    topics come to be when they are asked for."""

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
            _OLD_PROPERTIES.format(
                host=HOST,
                port=self.port,
                folder=self._folder,
                zookeeper=f"{self._zookeeper}/kafka-{self.version}",
            )
        )
        log = self._folder / "server.log"
        argv = [str(find_java()), *_JAVA_OPTIONS, _STARTS_SOON, f"-Dlog4j.configuration=file:{log4j}"]
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
