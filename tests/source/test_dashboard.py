"""The dashboard of ``docs/grafana.json``: a real Prometheus scrapes a stream, and each panel has data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire import metrics
from spark_kafkawire.metrics import QueryMetrics
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.prometheus import Prometheus, panels, program
from tests.support.spark_streams import begun, send, stream
from tests.support.sparks import READ_LIMITS

pytestmark = pytest.mark.skipif(program() is None, reason="no prometheus: Debian has it as a package")


@pytest.fixture
def served(spark: SparkSession) -> Iterator[QueryMetrics]:
    result = metrics.serve(spark, 0)
    yield result
    result.close()


@READ_LIMITS
def test_prometheus_has_data_for_each_panel(
    spark: SparkSession, noida: NoidaBroker, served: QueryMetrics, tmp_path: Path
) -> None:
    source, target = noida.create_topic(partitions=2), noida.create_topic(partitions=1)
    for partition in range(2):
        send(noida, source, range(200), partition)
    rows = stream(spark, noida, source, startingOffsets="earliest", maxOffsetsPerTrigger="10")
    writer = rows.select("value").writeStream.format("kafkawire").queryName("panels")
    writer = writer.option("kafka.bootstrap.servers", noida.bootstrap_servers).option("topic", target)
    prometheus = Prometheus(tmp_path, f"127.0.0.1:{served.port}")
    query = begun(
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(processingTime="1 second")
    )
    empty = {panel.title: panel for panel in panels()}

    def are_all_drawn() -> bool:
        assert query.isActive, query.exception()
        for title, panel in list(empty.items()):
            if panel.lines(prometheus, 60):
                del empty[title]
        return not empty

    try:
        poll(are_all_drawn, f"data for {[*empty]}")
    finally:
        query.stop()
        prometheus.stop()
