"""The versions of Apache Kafka that tests of this folder run against, but for those that name their own."""

from __future__ import annotations

from typing import Final

import pytest

#: The last release of the 3 line, which still serves clients from Kafka 0.8 on, and one of the 4 line.
VERSIONS: Final = ("3.9.1", "4.1.1")
#: Marks tests for which one of them is enough, for what they cost.
newest = pytest.mark.parametrize("kafka", VERSIONS[-1:], indirect=True, scope="session")
#: Marks tests that the newest release runs, too: what a read and a write need of a broker.
also_latest = pytest.mark.parametrize("kafka", [*VERSIONS, "4.4.0"], indirect=True, scope="session")
