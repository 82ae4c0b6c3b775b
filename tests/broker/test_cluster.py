"""Clusters in processes of their own: what they offer, and that nothing of them stays behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from kazoo.client import KazooClient

from spark_kafkawire.broker import EmbeddedCluster, processes
from spark_kafkawire.errors import ConnectFailed, OptionError
from tests.support import replay
from tests.support.freezing import is_stopped
from tests.support.message_sets import message
from tests.support.polling import poll

#: A message set that neither socket buffer nor one read takes whole.
LARGE = 30 * message(b"x" * 900_000)


def processes_of(cluster: EmbeddedCluster) -> list[int]:
    pids = [broker.pid for broker in cluster.brokers]
    pids.append(cluster.zookeeper.pid if cluster.zookeeper else None)
    return [pid for pid in pids if pid is not None]


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def own_threads() -> set[threading.Thread]:
    """The threads of now; the clients' pool, which tests share, sets a new timer when one has run."""
    return {thread for thread in threading.enumerate() if not isinstance(thread, threading.Timer)}


@pytest.mark.jvm
def test_brokers_and_zookeeper_are_there_and_then_gone() -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    threads = own_threads()
    with EmbeddedCluster(brokers=3, partitions=2, chroot="/kafka/07") as cluster:
        pids = processes_of(cluster)
        assert len(pids) == 4
        assert [broker.id for broker in cluster.brokers] == [0, 1, 2]
        assert cluster.broker_list == ",".join(
            f"{broker.id}:127.0.0.1:{broker.port}" for broker in cluster.brokers
        )
        assert cluster.zookeeper is not None
        assert cluster.zookeeper_connect == f"127.0.0.1:{cluster.zookeeper.port}/kafka/07"
        client = KazooClient(cluster.zookeeper_connect)
        client.start()
        assert sorted(client.get_children("/brokers/ids")) == ["0", "1", "2"]
        client.stop()
        client.close()
        folders = [broker.log_dir for broker in cluster.brokers]
    assert not any(is_alive(pid) for pid in pids)
    assert not any(folder.exists() for folder in folders)
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    assert own_threads() <= threads


def test_a_cluster_without_zookeeper_needs_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "spark_kafkawire.broker.zookeeper.find_java", lambda: pytest.fail("Java was looked for")
    )
    with EmbeddedCluster(1, zookeeper=False) as cluster:
        replay.produce(cluster.brokers[0].port, ("t", 2), message(b"visible at once"))
        assert replay.end_offset(cluster.brokers[0].port, ("t", 2)) == len(message(b"visible at once"))
        with pytest.raises(OptionError, match="this cluster has no ZooKeeper: use broker_list"):
            _ = cluster.zookeeper_connect


def test_logs_that_were_given_are_used_in_place_and_kept(tmp_path: Path) -> None:
    for value in (b"first", b"second"):
        with EmbeddedCluster(1, zookeeper=False, log_dirs=[tmp_path]) as cluster:
            replay.produce(cluster.brokers[0].port, ("t", 0), message(value))
    segment = tmp_path / "t-0" / "00000000000000000000.kafka"
    assert segment.read_bytes() == message(b"first") + message(b"second")


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


def test_a_broker_can_be_killed_in_the_middle_of_a_response() -> None:
    with EmbeddedCluster(1, zookeeper=False) as cluster:
        (broker,) = cluster.brokers
        replay.produce(broker.port, ("t", 0), LARGE)
        with replay.connect(broker.port) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            sock.sendall(replay.fetch_request(("t", 0), 0, 1 << 30))
            assert len(replay.receive(sock, 100_000)[0]) == 100_000
            broker.kill()
            received, end = replay.receive(sock, len(LARGE))
            assert end == "closed"
            assert len(received) < len(LARGE) - 100_000


def test_a_paused_broker_is_silent_and_goes_on() -> None:
    with EmbeddedCluster(1, zookeeper=False) as cluster:
        (broker,) = cluster.brokers
        with replay.connect(broker.port) as sock:
            broker.pause()
            sock.sendall(replay.fetch_request(("t", 0), 0, 100))
            assert replay.receive(sock, 1, replay.SILENCE_S) == (b"", "silent")
            broker.resume()
            assert replay.receive(sock, 6) == (bytes.fromhex("000000020000"), "full")
            broker.pause()


def test_a_paused_broker_stands_still_when_pause_returns() -> None:
    with EmbeddedCluster(1, zookeeper=False) as cluster, contextlib.ExitStack() as working:
        for _ in range(4):  # processes that have the processors
            work = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            working.callback(work.wait)
            working.callback(work.kill)
        (broker,) = cluster.brokers
        assert broker.pid is not None
        for _ in range(100):
            broker.pause()
            assert is_stopped(broker.pid)
            broker.resume()
        broker.pause()
        broker.pause()  # nothing more to wait for


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.jvm
def test_nothing_outlives_a_process_that_is_killed(tmp_path: Path, how: signal.Signals) -> None:
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
        parent.send_signal(how)
    poll(lambda: not any(is_alive(pid) for pid in descendants), "all processes are gone")


def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "STOP_TIMEOUT_S", 0.1)
    argv = ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done"]
    output = tmp_path / "output"
    child = processes.ChildProcess("a stubborn child", argv, output=output, log=output)
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


def test_the_broker_process_works_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/nowhere"]))
    with EmbeddedCluster(1, zookeeper=False) as cluster:
        assert replay.offsets(cluster.brokers[0].port, ("t", 0), -1, 1) == (0,)
