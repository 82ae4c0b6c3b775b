"""A standalone cluster of two workers for all tests of this folder: ``make test-cluster``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.submitting import environment, make_zip
from tests.support.spark_cluster import SparkCluster


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where jobs are submitted: the zip, and a Python that does not know the checkout."""
    folder = tmp_path_factory.mktemp("cluster")
    make_zip(folder)
    return folder


@pytest.fixture
def cluster(workplace: Path, tmp_path: Path) -> Iterator[SparkCluster]:
    """A cluster of the test's own: it may kill workers."""
    with SparkCluster(tmp_path, environment(workplace)) as started:
        yield started
