"""Brokers that several rooms' tests share, recorded logs of Kafka 0.7.2 and modern ones; and who leaks."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from spark_kafkawire import secrecy
from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.net.known_versions import KNOWN
from spark_kafkawire.net.pool import POOL
from tests.support.certificates import Certificates, find_openssl
from tests.support.certificates import make as make_certificates
from tests.support.golden import CORPUS
from tests.support.mock_cluster import MockCluster
from tests.support.noida import NoidaBroker

# What is slow on a machine with other work is not wrong.
settings.register_profile(
    "any machine", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


def pytest_collection_finish() -> None:
    """What is loaded by now stays, so that collecting garbage need not look at it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def nothing_left_open() -> Iterator[None]:
    """A socket or file that a module does not close is its failure, not that of tests an hour later."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    """What is known of a broker belongs to an address that another test may get again, and whoever
    learns it is who connects; and one test's secrets are another test's words."""
    yield
    POOL.close_idle()
    KNOWN.forget()
    secrecy.forget_secrets()


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """Two brokers on the corpus logs, with ZooKeeper. Tests may write, to topics of their own."""
    folder = tmp_path_factory.mktemp("corpus")
    log_dirs = [Path(shutil.copytree(CORPUS / name, folder / name)) for name in ("broker0", "broker1")]
    with EmbeddedCluster(brokers=2, partitions=3, log_dirs=log_dirs) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def noida() -> Iterator[NoidaBroker]:
    """A modern broker that all tests share: each creates topics of its own, and none stops it."""
    with NoidaBroker() as broker:
        yield broker


@pytest.fixture
def mock_cluster() -> Iterator[MockCluster]:
    """Three modern brokers that fail as the test tells them to."""
    with MockCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority, a server for ``localhost`` and clients; skips where openssl is missing."""
    if find_openssl() is None:
        pytest.skip("openssl makes the certificates, and is not in PATH")
    return make_certificates(tmp_path_factory.mktemp("certificates"))
