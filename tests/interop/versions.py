"""The versions of Apache Kafka that tests of this folder run against, but for those that name their own."""

from __future__ import annotations

import re
from typing import Final

import pytest

NEWEST: Final = "4.4.0"
#: The last release of the 3 line, which still serves clients from Kafka 0.8 on, and the newest one.
VERSIONS: Final = ("3.9.1", NEWEST)
#: The brokers of ``make interop``; ``make nightly`` has all others.
EACH_COMMIT: Final = ("0.10.2.2", "2.8.2", NEWEST)
#: Three brokers of each version, which keep all on all of them.
_REPLICATED: Final = [
    pytest.param((version, 3), id=f"three {version}", marks=pytest.mark.nightly) for version in VERSIONS
]
#: Marks tests that run against those, too.
replicated = pytest.mark.parametrize("kafka", [*VERSIONS, *_REPLICATED], indirect=True, scope="session")
#: Marks tests that run against those of one version, too, for what they cost.
newest_replicated = pytest.mark.parametrize(
    "kafka", [*VERSIONS, _REPLICATED[-1]], indirect=True, scope="session"
)
#: Marks tests for which one of them is enough, for what they cost.
newest = pytest.mark.parametrize("kafka", [NEWEST], indirect=True, scope="session")
#: Marks tests that a release between them runs, too: what a read and a write need of a broker.
also_between = pytest.mark.parametrize("kafka", ["3.9.1", "4.1.1", NEWEST], indirect=True, scope="session")


def is_nightly(value: object) -> bool:
    """True if a parameter of a test is a version of brokers that ``make interop`` does not start."""
    if isinstance(value, tuple):
        return is_nightly(value[0])
    is_version = isinstance(value, str) and re.fullmatch(r"(\d+\.){2,3}\d+", value) is not None
    return is_version and value not in EACH_COMMIT
