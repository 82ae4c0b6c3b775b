"""Brokers of 0.7 that a test may stop, kill and start again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_kafkawire.broker import EmbeddedCluster, ZooKeeperServer
from tests.support.embedded import SharingCluster
from tests.support.golden import CORPUS


@pytest.fixture
def log_dirs(tmp_path: Path) -> list[Path]:
    """The corpus logs, copied into the test's folder."""
    return [Path(shutil.copytree(CORPUS / name, tmp_path / name)) for name in ("broker0", "broker1")]


@pytest.fixture
def cluster(zookeeper: ZooKeeperServer, log_dirs: list[Path]) -> Iterator[EmbeddedCluster]:
    """Two brokers on the corpus logs. Their ZooKeeper stays, for it is of other tests, too."""
    with SharingCluster(zookeeper, log_dirs) as running:
        yield running
