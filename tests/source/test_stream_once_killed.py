"""Drivers and workers of streams with delivery=exactly-once are killed at random moments: in the end each
record of a stream's source is in its target once.

``KAFKAWIRE_ONCE_STREAMS=3 KAFKAWIRE_ONCE_KILLS=12 KAFKAWIRE_ONCE_WORKERS=2`` kills the driver of three
streams so often, and before each time so many workers under each of them, and prints where the kills fell
(``pytest -s -o faulthandler_timeout=0``, or pytest ends after 20 minutes): that are 108 kills of streams. Two
are what there is time for with all other tests. All of this is in ``make nightly``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.noida import NoidaBroker
from tests.support.sparks import READ_LIMITS
from tests.support.stream_once import TIMEOUT_S, kill_and_check, trouble_and_check

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(TIMEOUT_S)]


def test_kills_neither_lose_nor_double_a_record_of_an_exactly_once_stream(
    noida: NoidaBroker, tmp_path: Path
) -> None:
    kill_and_check(noida.bootstrap_servers, tmp_path)


@READ_LIMITS
def test_tasks_that_fail_at_random_neither_lose_nor_double_a_record(
    noida: NoidaBroker, tmp_path: Path
) -> None:
    found = trouble_and_check(
        noida.bootstrap_servers, tmp_path, {"fails": 0.25}, {"spark.master": "local[2,4]"}
    )
    assert found["failed"]
