"""A partition over real sockets, for the tests of how it is read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_kafkawire.net.pool import Pool
from tests.support.fetching import COUNT, write
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.mock_cluster import MockCluster


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.close_idle()


@pytest.fixture(scope="module")
def log() -> MemoryLog:
    """VALUES in batches of seven; tests do not change it."""
    log = MemoryLog()
    with LogServer({"t": [log]}) as server:
        write(server.bootstrap_servers)
    assert log.stop_offset == COUNT
    return log


@pytest.fixture
def served(log: MemoryLog) -> Iterator[LogServer]:
    with LogServer({"t": [log]}) as server:
        yield server


@pytest.fixture
def written(mock_cluster: MockCluster) -> MockCluster:
    """The mock cluster with VALUES in a partition that broker 1 leads."""
    mock_cluster.create_topic("t", replicas=3)
    mock_cluster.set_leader("t", 0, 1)
    write(mock_cluster.bootstrap_servers)
    return mock_cluster
