"""A real ZooKeeper server from pyspark's jars, on loopback, in a temporary folder.

    with ZooKeeperServer() as zookeeper:
        KazooClient(zookeeper.connect)

ZooKeeper's class path is all of pyspark's jars; pyspark itself is not imported.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import socket
import tempfile
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient

from ..errors import ConnectFailed, OptionError
from .java import find_java
from .processes import ChildProcess

HOST: Final = "127.0.0.1"
#: ZooKeeper is ready in about a second; a loaded machine takes longer.
START_TIMEOUT_S: Final = 60.0
STATUS_TIMEOUT_S: Final = 5.0
#: A free port may be taken between its choice and the server's start.
START_ATTEMPTS: Final = 5

# A tick of 500 ms allows sessions from 1 s on. The data serve one test or demo, so the transaction log is
# neither forced to disk nor allocated in advance (64 MiB).
_CONFIG: Final = """\
tickTime=500
maxSessionTimeout=60000
maxClientCnxns=0
dataDir={data}
clientPortAddress={host}
clientPort={port}
admin.enableServer=false
4lw.commands.whitelist=srvr,dump
"""
_JAVA_OPTIONS: Final = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dzookeeper.forceSync=no",
    "-Dzookeeper.preAllocSize=1024",
)
_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class ZooKeeperServer:
    """A ZooKeeper server in its own process. Stopping and starting keeps port and data."""

    def __init__(self) -> None:
        self.host = HOST
        self.port = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: ChildProcess | None = None

    @property
    def connect(self) -> str:
        """Address as connect strings have it: ``host:port``."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id of its Java; None while it is not running."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start it and wait until it serves.

        Raises ``OptionError`` without Java or pyspark, ``ConnectFailed`` when it does not serve.
        """
        assert self._process is None, "ZooKeeper runs already: stop or kill it first"
        java, class_path = find_java(), find_jars()
        if self.port:
            self._launch(java, class_path)
            return
        self._folder = tempfile.TemporaryDirectory(prefix="kafkawire-zookeeper-")
        for attempt in range(1, START_ATTEMPTS + 1):
            self.port = _free_port()
            try:
                self._launch(java, class_path)
                return
            except ConnectFailed as error:
                if attempt == START_ATTEMPTS or "BindException" not in str(error):
                    self.close()
                    raise

    def _launch(self, java: Path, class_path: str) -> None:
        assert self._folder is not None
        folder = Path(self._folder.name)
        config = folder / "zoo.cfg"
        config.write_text(_CONFIG.format(data=folder / "data", host=HOST, port=self.port))
        log = folder / "zookeeper.log"
        argv = [str(java), *_JAVA_OPTIONS, "-cp", class_path, _MAIN, str(config)]
        self._process = ChildProcess("ZooKeeper", argv, output=log, log=log)
        try:
            self._process.wait_until(self._serving, f"serving {self.connect}", START_TIMEOUT_S)
        except ConnectFailed:
            self.stop()
            raise

    def _serving(self) -> bool | None:
        # "ruok" is answered before requests are served, "srvr" only afterwards.
        return True if self._ask(b"srvr").startswith("Zookeeper version") else None

    def _ask(self, word: bytes) -> str:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((HOST, self.port), STATUS_TIMEOUT_S) as sock,
        ):
            sock.sendall(word)
            with sock.makefile("rb") as answer:
                return answer.read().decode("utf-8", "replace")
        return ""

    def expire_sessions(self) -> None:
        """End every session as if it had timed out: ephemeral nodes go, clients are notified.

        A session ends when any connection that knows its id and password closes it. The password
        is a function of the id. Source: ZooKeeper 3.9 server/ZooKeeperServer.java, generatePasswd.
        """
        for session_id in {int(word, 16) for word in re.findall(r"0x([0-9a-f]+)", self._ask(b"dump"))}:
            if session_id:
                signed = session_id - (1 << 64) if session_id >> 63 else session_id
                client = KazooClient(self.connect, client_id=(signed, session_password(session_id)))
                client.start(START_TIMEOUT_S)
                client.stop()
                client.close()

    def stop(self) -> None:
        """Stop it; its port and data stay, ``start`` uses them again."""
        if self._process:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """End it as ``kill -9`` does; its port and data stay."""
        if self._process:
            self._process.kill()
            self._process = None

    def close(self) -> None:
        """End it and remove its folder."""
        self.kill()
        if self._folder:
            self._folder.cleanup()
            self._folder = None
        self.port = 0

    def __enter__(self) -> ZooKeeperServer:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def find_jars() -> str:
    """The class path of pyspark's jars. Raises ``OptionError`` if pyspark is not installed."""
    spec = importlib.util.find_spec("pyspark")
    for location in (spec and spec.submodule_search_locations) or ():
        jars = Path(location, "jars")
        if any(jars.glob("zookeeper-[0-9]*.jar")):
            return str(jars / "*")
    raise OptionError("the jar of ZooKeeper is missing: it is a part of pyspark, run pip install pyspark")


def session_password(session_id: int) -> bytes:
    """The 16 bytes that ZooKeeper gives a session as its password: java.util.Random of its id."""
    multiplier, mask = 0x5DEECE66D, (1 << 48) - 1
    seed = (session_id ^ 0xB3415C00 ^ multiplier) & mask
    password = b""
    while len(password) < 16:
        seed = (seed * multiplier + 0xB) & mask
        password += (seed >> 16).to_bytes(4, "little")
    return password


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as sock:
        port: int = sock.getsockname()[1]
        return port
