"""Metrics of streams: from events, from a Spark, and read by Prometheus' own parser."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession, functions

from spark_kafkawire import metrics
from spark_kafkawire.errors import OptionError
from spark_kafkawire.metrics import METRICS, QueryMetrics
from tests.support.noida import NoidaBroker
from tests.support.pages import table_after
from tests.support.polling import DEADLINE_S, poll
from tests.support.query_events import Run, source
from tests.support.spark_streams import WAIT_MAX_S, begun, run, send, stream
from tests.support.sparks import READ_LIMITS

#: Labels in an order of their own: the text has them sorted.
LABELS: Final = ("query", "source", "topic", "partition", "phase", "observation", "column")
Values = dict[tuple[str, ...], float]


@pytest.fixture
def taken(spark: SparkSession) -> QueryMetrics:
    """Metrics that get the events of a test."""
    return QueryMetrics(spark)


def values(taken: QueryMetrics) -> Values:
    """Values by metric and labels, without the query."""
    return {
        (metric, *(text for name, text in labels.items() if name != "query")): value
        for metric, labels, value in taken.samples()
    }


def parsed(text: str) -> Values:
    """Values of a text, as Prometheus reads it, by metric and labels, in the order of ``LABELS``."""
    return {
        (sample.name, *(sample.labels[name] for name in LABELS if name in sample.labels)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_page_and_the_dashboard_have_the_names_of_the_code() -> None:
    shown = {row[0].strip("`"): row[2] for row in table_after("docs/metrics.md", "<!-- metrics -->")}
    assert shown == METRICS
    drawn = set(re.findall(r"kafkawire_\w+", Path("docs/grafana.json").read_text("utf-8")))
    assert drawn <= METRICS.keys()
    assert len(drawn) > 10


def test_lag_is_that_of_topics_and_partitions(taken: QueryMetrics) -> None:
    ends, latest = {"t": {"0": 5, "1": 7}, "u": {"0": 1}}, {"t": {"0": 5, "1": 10, "2": 9}, "u": {"0": 3}}
    taken.onQueryProgress(Run("q").progress(source(ends, latest)))
    result = values(taken)
    assert result["kafkawire_lag_records", "0", "t"] == 12
    assert result["kafkawire_lag_records", "0", "u"] == 2
    assert result["kafkawire_partitions", "0", "t"] == 3
    assert result["kafkawire_partition_lag_records", "0", "t", "1"] == 3
    assert result["kafkawire_partition_offset", "0", "t", "1"] == 7
    assert result["kafkawire_partition_latest_offset", "0", "t", "2"] == 9


def test_lag_of_07_counts_bytes(taken: QueryMetrics) -> None:
    taken.onQueryProgress(Run().progress(source({"t": {"0-1": 500}}, {"t": {"0-1": 700}})))
    result = values(taken)
    assert (
        result["kafkawire_lag_bytes", "0", "t"]
        == result["kafkawire_partition_lag_bytes", "0", "t", "0-1"]
        == 200
    )
    assert not [name for name, *_ in result if name.endswith("lag_records")]


def test_lag_in_seconds_follows_from_earlier_ends(taken: QueryMetrics) -> None:
    query = Run()
    taken.onQueryProgress(query.progress(source({"t": {"0": 5, "1": 0}}, {"t": {"0": 10, "1": 0}}), second=0))
    assert ("kafkawire_lag_seconds", "0", "t") not in values(taken)  # nobody saw when record 5 came
    taken.onQueryProgress(
        query.progress(source({"t": {"0": 10, "1": 0}}, {"t": {"0": 20, "1": 1}}), second=20)
    )
    result = values(taken)
    assert result["kafkawire_partition_lag_seconds", "0", "t", "0"] == 20
    assert result["kafkawire_lag_seconds", "0", "t"] == 20
    taken.onQueryProgress(
        query.progress(source({"t": {"0": 20, "1": 1}}, {"t": {"0": 20, "1": 1}}), second=40)
    )
    assert values(taken)["kafkawire_lag_seconds", "0", "t"] == 0


def test_unknown_ends_are_no_lag(taken: QueryMetrics) -> None:
    taken.onQueryProgress(Run().progress(source({"t": {"0": 5}})))
    result = values(taken)
    assert result["kafkawire_partition_offset", "0", "t", "0"] == 5
    assert not [name for name, *_ in result if "lag" in name or "latest" in name]


@pytest.mark.parametrize(
    ("asked", "count", "shown"),
    [(None, 200, True), (None, 201, False), (True, 201, True), (False, 1, False)],
)
def test_many_partitions_have_no_series_of_their_own(
    spark: SparkSession, asked: bool | None, count: int, shown: bool
) -> None:
    taken = QueryMetrics(spark, partitions=asked)
    ends = {"t": {str(number): 1 for number in range(count)}}
    taken.onQueryProgress(Run().progress(source(ends, ends)))
    assert ("kafkawire_partition_lag_records", "0", "t", "0") in values(taken) or not shown
    assert shown or not [name for name, *_ in values(taken) if name.startswith("kafkawire_partition_")]
    assert values(taken)["kafkawire_lag_records", "0", "t"] == 0


def test_many_topics_share_one_series(taken: QueryMetrics) -> None:
    ends = {f"t{number}": {"0": 1} for number in range(201)}
    taken.onQueryProgress(Run().progress(source(ends, {topic: {"0": 3} for topic in ends})))
    result = values(taken)
    assert result["kafkawire_lag_records", "0", "*"] == 402
    assert len(result) < 30


def test_counts_go_on_when_a_query_starts_again_and_of_ended_ones_the_newest_are_kept(
    taken: QueryMetrics,
) -> None:
    for number in range(150):
        query = Run(f"q{number}")
        taken.onQueryProgress(query.progress(source({"t": {"0": 1}})))
        taken.onQueryTerminated(query.terminated("failed" if number == 149 else None))
    again = Run("q149")
    taken.onQueryProgress(again.progress(source({"t": {"0": 2}})))
    result = {(metric, labels["query"]): value for metric, labels, value in taken.samples()}
    assert result["kafkawire_batches_total", "q149"] == 2
    assert result["kafkawire_query_failures_total", "q149"] == 1
    assert result["kafkawire_query_failures_total", "q148"] == 0
    assert result["kafkawire_query_active", "q149"] == 1
    assert result["kafkawire_query_active", "q148"] == 0
    assert len({name for _, name in result}) == 100
    taken.onQueryTerminated(again.terminated())
    assert values(taken)["kafkawire_query_active",] == 0


def test_a_port_that_is_taken_is_one_line(spark: SparkSession) -> None:
    first = metrics.serve(spark, 0)
    try:
        with pytest.raises(OptionError, match=r"^metrics\.serve: .*in use.*; name another port or file$"):
            metrics.serve(spark, first.port)
    finally:
        first.close()


def test_a_folder_that_is_missing_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"^metrics\.write: .*; name another port or file$"):
        metrics.write(spark, str(tmp_path / "none" / "kafkawire.prom"))


# Through Spark


@pytest.fixture
def served(spark: SparkSession) -> Iterator[QueryMetrics]:
    served = metrics.serve(spark, 0)
    yield served
    served.close()


def scraped(served: QueryMetrics) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/metrics", timeout=DEADLINE_S) as response:
        return str(response.read(), "utf-8")


def ended(text: str) -> bool:
    return parsed(text).get(("kafkawire_query_active", "copy")) == 0


@READ_LIMITS
def test_prometheus_reads_what_a_query_did(
    spark: SparkSession, noida: NoidaBroker, served: QueryMetrics, tmp_path: Path
) -> None:
    topic, copy = noida.create_topic(partitions=2), noida.create_topic(partitions=1)
    send(noida, topic, range(20))
    path = tmp_path / "kafkawire.prom"
    written = metrics.write(spark, str(path))
    rows = stream(spark, noida, topic, startingOffsets="earliest", maxOffsetsPerTrigger="15")
    rows = rows.withWatermark("timestamp", "1 minute").observe("seen", functions.count("*").alias("rows"))
    writer = rows.select("value").writeStream.format("kafkawire").queryName("copy").trigger(availableNow=True)
    writer = writer.option("kafka.bootstrap.servers", noida.bootstrap_servers).option("topic", copy)
    try:
        run(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
        poll(lambda: ended(scraped(served)) and ended(path.read_text()), "the end of the query")
        text = scraped(served)
    finally:
        written.close()
    totals = [
        {key: value for key, value in parsed(item).items() if "total" in key[0]}
        for item in (text, path.read_text())
    ]
    assert totals[0] == totals[1]
    result = parsed(text)
    assert result["kafkawire_batches_total", "copy"] >= 2
    assert result["kafkawire_records_read_total", "copy", "0"] == 20
    assert result["kafkawire_rows_written_total", "copy"] == 20
    assert result["kafkawire_lag_records", "copy", "0", topic] == 0
    assert result["kafkawire_lag_seconds", "copy", "0", topic] == 0
    assert result["kafkawire_partition_offset", "copy", "0", topic, "0"] == 20
    assert (
        result["kafkawire_batch_seconds_total", "copy"]
        > result["kafkawire_phase_seconds_total", "copy", "addBatch"]
        > 0
    )
    assert result["kafkawire_watermark_timestamp_seconds", "copy"] > 1e9
    assert ("kafkawire_observed", "copy", "seen", "rows") in result
    kinds = {family.name: family.type for family in text_string_to_metric_families(text)}
    # The parser leaves _total out of the names of counters.
    assert kinds == {
        metric.removesuffix("_total"): "counter" if metric.endswith("_total") else "gauge"
        for metric in METRICS
        if (metric.removesuffix("_total") in kinds)
    }
    table = {row.metric: row for row in served.to_table().collect()}
    assert table["kafkawire_rows_written_total"].value == 20
    assert table["kafkawire_rows_written_total"].labels == {"query": "copy"}


@READ_LIMITS
def test_bytes_and_failures_of_a_query(
    spark: SparkSession, noida: NoidaBroker, served: QueryMetrics, tmp_path: Path
) -> None:
    topic = noida.create_topic()
    send(noida, topic, range(20))
    rows = stream(spark, noida, topic, startingOffsets="earliest")
    failing = rows.selectExpr("if(value = X'3939', raise_error('stopped'), value) AS value")
    writer = failing.writeStream.format("noop").queryName("failing")
    query = begun(writer.option("checkpointLocation", str(tmp_path)))
    poll(lambda: ("kafkawire_last_batch_bytes", "failing") in parsed(scraped(served)), "the bytes of a batch")
    assert parsed(scraped(served))["kafkawire_last_batch_bytes", "failing"] > 20
    send(noida, topic, [99])
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(WAIT_MAX_S)
    poll(
        lambda: parsed(scraped(served))["kafkawire_query_failures_total", "failing"] == 1,
        "the failure to be counted",
    )
