"""A standalone cluster of two workers for all tests of this folder: ``make test-cluster``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.submitting import environment, make_zip
from tests.support.spark_cluster import SparkCluster

from .losing import Losing


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder from which jobs are submitted: the zip, and a Python that does not know the checkout."""
    folder = tmp_path_factory.mktemp("cluster")
    make_zip(folder)
    return folder


@pytest.fixture(scope="module")
def cluster(workplace: Path) -> Iterator[SparkCluster]:
    """The cluster that the tests share."""
    with SparkCluster(workplace, environment(workplace)) as started:
        yield started


@pytest.fixture
def losing(cluster: SparkCluster, workplace: Path, tmp_path: Path) -> Losing:
    """Runs jobs on the cluster, whose two workers are alive, and kills one in the middle."""
    cluster.replace_workers()
    return Losing(cluster, workplace, tmp_path)
