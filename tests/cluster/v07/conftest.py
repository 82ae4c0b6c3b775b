"""A real ZooKeeper with a tree for each test, and brokers in this process."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.broker import BrokerServer, ZooKeeperServer
from tests.support.embedded import StartBroker, small_broker
from tests.support.tree_writer import TreeWriter

_CHROOTS: Final = itertools.count()


@pytest.fixture
def tree(zookeeper: ZooKeeperServer) -> Iterator[TreeWriter]:
    """An empty tree below a chroot of its own."""
    with TreeWriter(zookeeper.connect, f"/test-{next(_CHROOTS)}") as writer:
        yield writer


@pytest.fixture(scope="session")
def _own_zookeeper() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture
def own_zookeeper(_own_zookeeper: ZooKeeperServer) -> Iterator[ZooKeeperServer]:
    """A ZooKeeper that runs, for tests that stop, kill or freeze it."""
    if _own_zookeeper.pid is None:
        _own_zookeeper.start()
    yield _own_zookeeper
    if _own_zookeeper.pid:
        os.kill(_own_zookeeper.pid, signal.SIGCONT)


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """Start brokers in this process that end with the test; ``start(id, properties, ...)``."""
    with contextlib.ExitStack() as stack:

        def start(
            broker_id: int = 0, properties: dict[str, str] | None = None, **arguments: object
        ) -> BrokerServer:
            config = small_broker(tmp_path / f"broker-{broker_id}", properties, broker_id)
            return stack.enter_context(BrokerServer(config, **arguments))  # type: ignore[arg-type]

        yield start


@pytest.fixture(autouse=True)
def quiet(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Nothing under test writes to the user's terminal."""
    yield
    out, err = capfd.readouterr()
    # Tests may print a failure's details; what passes must be silent.
    sys.stderr.write(err)
    assert (out, err) == ("", "")
