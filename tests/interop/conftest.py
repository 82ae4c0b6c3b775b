"""Real brokers, one of each version, where this machine has Java and Maven gets the jars."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.certificates import Certificates

from .apache_kafka import ApacheKafka
from .needs import needs_broker
from .versions import VERSIONS


@pytest.fixture(scope="session", params=VERSIONS)
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[ApacheKafka]:
    """A broker that all tests share: each creates topics of its own; one that restarts it waits for it."""
    version: str = request.param
    needs_broker(version)
    with ApacheKafka(version, tmp_path_factory.mktemp(f"kafka-{version}"), certificates) as broker:
        yield broker
