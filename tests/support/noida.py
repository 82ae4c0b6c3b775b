"""noida-db's Kafka broker in its own process: one node, on loopback, its data in a temporary folder.

It is a broker that nobody here wrote: Produce up to version 9, Fetch up to 13, transactions, groups,
retention by the records' own time, DeleteRecords. It has no TLS, and takes any PLAIN password.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import os
import random
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from spark_kafkawire.broker.cluster import ChildProcess
from spark_kafkawire.errors import ConnectFailed

from . import librdkafka

HOST: Final = "127.0.0.1"
#: It serves after some ten milliseconds; a loaded machine takes longer.
START_TIMEOUT_S: Final = 90.0
#: Below are the ports of well-known servers.
PORT_MIN: Final = 10_000
#: A free port may be taken between its choice and the broker's start.
START_ATTEMPTS: Final = 5

#: What topics have: records of any time stay. It looks every second for those that have had their time.
KEPT_FOREVER: Final = {"retention.ms": "-1"}

# ApiVersions, version 0, correlation id 7, no client id; and how an answer without error begins.
_API_VERSIONS: Final = bytes.fromhex("0000000a 0012 0000 00000007 ffff")
_ANSWER: Final = bytes.fromhex("00000007 0000")


class NoidaBroker:
    """A modern broker in a process of its own. Stopping and starting keeps port and data."""

    def __init__(self) -> None:
        self.port = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: ChildProcess | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Its address, as clients take it: ``host:port``."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Its process id, None while it is not running."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start it and wait until it answers. Raises ``ConnectFailed`` when it does not."""
        assert self._process is None, "noida-db runs already: stop or kill it first"
        if self.port:
            self._launch()
            return
        self._folder = tempfile.TemporaryDirectory(prefix="kafkawire-noida-")
        for attempt in range(1, START_ATTEMPTS + 1):
            self.port = free_port()
            try:
                self._launch()
                return
            except ConnectFailed as error:
                if attempt == START_ATTEMPTS or "already in use" not in str(error):
                    self.close()
                    raise

    def _launch(self) -> None:
        assert self._folder is not None
        folder = Path(self._folder.name)
        log = folder / "noida.log"
        log.unlink(missing_ok=True)
        argv = [find_program(), "start", "--only", "kafka", "--host", HOST]
        argv += ["--kafka-port", str(self.port), "--data-dir", str(folder / "data")]
        self._process = ChildProcess("noida-db", argv, output=log, log=log)
        try:
            self._process.wait_until(self._answering, f"answering on port {self.port}", START_TIMEOUT_S)
        except ConnectFailed:
            self.kill()
            raise

    def _answering(self) -> bool | None:
        # The process of another may hold the port, and answer: ours says so once it listens itself.
        assert self._process is not None
        listens = f" {HOST}:{self.port}\n" in self._process.log.read_text("utf-8", "replace")
        return True if listens and answers(HOST, self.port) else None

    def stop(self) -> None:
        """Stop it in order, which saves its data; ``start`` goes on with port and data."""
        if self._process:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """End it as ``kill -9`` does; what it had not saved is lost."""
        if self._process:
            self._process.kill()
            self._process = None

    def pause(self) -> None:
        """Freeze it: its connections stay open, and silent."""
        assert self._process is not None
        self._process.pause()

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.resume()

    def close(self) -> None:
        """End it and remove its data."""
        self.kill()
        if self._folder:
            self._folder.cleanup()
            self._folder = None
        self.port = 0

    def __enter__(self) -> NoidaBroker:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def create_topic(
        self, partitions: int = 1, name: str | None = None, config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic, with a name that no other test has unless it is given; its name."""
        return librdkafka.create_topic(
            self.bootstrap_servers, partitions, name, {**KEPT_FOREVER, **(config or {})}
        )

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Make a topic one of ``partitions`` partitions in all."""
        librdkafka.create_partitions(self.bootstrap_servers, topic, partitions)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Move the start of a partition up to ``before_offset``: what was before it is gone."""
        librdkafka.delete_records(self.bootstrap_servers, topic, partition, before_offset)


def answers(host: str, port: int, timeout_s: float = 5.0) -> bool:
    """True if a broker answers the request for the versions of its APIs."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout_s) as sock:
        sock.sendall(_API_VERSIONS)
        with sock.makefile("rb") as answer:
            return answer.read(4 + len(_ANSWER))[4:] == _ANSWER
    return False


def listens(host: str, port: int, timeout_s: float = 5.0) -> bool:
    """True if the port accepts connections."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout_s):
        return True
    return False


def find_program() -> str:
    """The path of noida-db's program: started without the Python around it, it is one process."""
    program = Path(str(importlib.resources.files("noida_db"))) / "noida-db"
    if not os.access(program, os.X_OK):
        program.chmod(0o755)
    return str(program)


def free_port() -> int:
    """A port that nobody listens on now, and that no connection gets until somebody does: those that the
    operating system gives out itself may be taken before, or while a broker is stopped to start again."""
    for _ in range(1000):
        port = random.randrange(PORT_MIN, _first_given_out())
        with contextlib.suppress(OSError), socket.create_server((HOST, port)):
            return port
    raise AssertionError("no port is free")


def free_ports(count: int) -> list[int]:
    """So many such ports, all different."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return [*ports]


def _first_given_out() -> int:
    """The first port of those that outgoing connections get."""
    try:
        return max(int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]), 2 * PORT_MIN)
    except OSError:  # no Linux: as IANA has it
        return 49152
