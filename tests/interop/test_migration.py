"""Migrations to Apache Kafka itself: it creates the topics, and holds each log to its order."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.jobs.migration.report import check
from tests.jobs.migration.migrating import Killed, clusters_of, killed_after, run
from tests.support import librdkafka
from tests.support.corpus import GZIP_TOPIC, recorded
from tests.support.golden import values_sha256

from .apache_kafka import ApacheKafka


def test_a_migration_that_is_killed_and_run_again_copies_each_message_once(
    kafka: ApacheKafka, corpus: EmbeddedCluster, tmp_path: Path
) -> None:
    servers, name = kafka.bootstrap_servers(), "migrated"
    clusters = clusters_of(corpus.zookeeper_connect, servers, [GZIP_TOPIC])
    for count in (2, 9):
        with pytest.raises(Killed):
            run(clusters, tmp_path, {GZIP_TOPIC: name}, 60_000, killed_after(count))
    check(run(clusters, tmp_path, {GZIP_TOPIC: name}, 60_000))
    copied = [
        [record.value or b"" for record in librdkafka.consume(servers, name, partition)]
        for partition in range(6)
    ]
    assert [(len(values), values_sha256(iter(values))) for values in copied] == recorded()
