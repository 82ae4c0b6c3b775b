"""The streams of ``tests.source.test_streams_killed`` on Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.stream_once import TIMEOUT_S, kill_and_check

from .apache_cluster import ApacheCluster
from .apache_kafka import ApacheKafka
from .versions import newest_replicated


@newest_replicated
@pytest.mark.nightly
@pytest.mark.timeout(TIMEOUT_S)
def test_kills_neither_lose_nor_double_a_record_of_an_exactly_once_stream(
    kafka: ApacheKafka | ApacheCluster, tmp_path: Path
) -> None:
    kill_and_check(kafka.bootstrap_servers(), tmp_path)
