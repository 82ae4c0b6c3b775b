"""The versions of Apache Kafka that tests of this folder run against, but for those that name their own."""

from __future__ import annotations

from typing import Final

import pytest

#: The last release of the 3 line, which still serves clients from Kafka 0.8 on, and one of the 4 line.
VERSIONS: Final = ("3.9.1", "4.1.1")
#: Three brokers of each version, which keep all on all of them.
_REPLICATED: Final = [pytest.param((version, 3), id=f"three {version}") for version in VERSIONS]
#: Marks tests that run against those, too.
replicated = pytest.mark.parametrize("kafka", [*VERSIONS, *_REPLICATED], indirect=True, scope="session")
#: Marks tests that run against those of one version, too, for what they cost.
newest_replicated = pytest.mark.parametrize(
    "kafka", [*VERSIONS, _REPLICATED[-1]], indirect=True, scope="session"
)
#: Marks tests for which one of them is enough, for what they cost.
newest = pytest.mark.parametrize("kafka", VERSIONS[-1:], indirect=True, scope="session")
#: Marks tests that the newest release runs, too: what a read and a write need of a broker.
also_latest = pytest.mark.parametrize("kafka", [*VERSIONS, "4.4.0"], indirect=True, scope="session")
