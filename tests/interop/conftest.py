"""Real brokers, one of each version, where this machine has Java and Maven gets the jars."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.certificates import Certificates

from .apache_kafka import ApacheCluster, ApacheKafka
from .versions import VERSIONS, is_nightly, needs_broker


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of all brokers that ``make interop`` does not start."""
    for item in items:
        case = getattr(item, "callspec", None)
        if case is not None and any(map(is_nightly, case.params.values())):
            item.add_marker("nightly")


@pytest.fixture(scope="session", params=VERSIONS)
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[ApacheKafka | ApacheCluster]:
    """A broker that all tests share, or several of a version (``versions.replicated``). Each test creates its
    own topics.

    No test restarts it: after one of some hundred restarts Kafka 4.1.1 knew no SCRAM user until its end.
    """
    version, nodes = request.param if isinstance(request.param, tuple) else (request.param, 1)
    needs_broker(version)
    folder = tmp_path_factory.mktemp(f"kafka-{version}")
    with (
        ApacheKafka(version, folder, certificates) if nodes == 1 else ApacheCluster(version, folder, nodes)
    ) as brokers:
        yield brokers
