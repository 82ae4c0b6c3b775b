"""Brokers on copies of the logs that a real Kafka 0.7.2 wrote."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from tests.support.golden import CORPUS


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """Two brokers on the corpus logs, with ZooKeeper. Tests may write, to topics of their own."""
    folder = tmp_path_factory.mktemp("corpus")
    log_dirs = [Path(shutil.copytree(CORPUS / name, folder / name)) for name in ("broker0", "broker1")]
    with EmbeddedCluster(brokers=2, partitions=3, log_dirs=log_dirs) as cluster:
        yield cluster
