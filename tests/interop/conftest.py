"""Real brokers, one of each version, where this machine has Java and Maven gets the jars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.certificates import Certificates

from .apache_kafka import ApacheKafka
from .needs import needs_broker

#: The last release of the 3 line, which still serves clients from Kafka 0.8 on, and one of the 4 line.
VERSIONS: Final = ("3.9.1", "4.1.1")
#: Marks tests for which one of them is enough, for what they cost.
newest = pytest.mark.parametrize("kafka", VERSIONS[-1:], indirect=True, scope="session")


@pytest.fixture(scope="session", params=VERSIONS)
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[ApacheKafka]:
    """A broker that all tests share: each creates topics of its own; one that restarts it waits for it."""
    version: str = request.param
    needs_broker(version)
    with ApacheKafka(version, tmp_path_factory.mktemp(f"kafka-{version}"), certificates) as broker:
        yield broker
