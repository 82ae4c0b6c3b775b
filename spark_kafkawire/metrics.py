"""Metrics of streaming queries: for Prometheus, for its node exporter, or as rows.

    from spark_kafkawire import metrics

    metrics.serve(spark, port=9400)                               # http://127.0.0.1:9400/metrics
    metrics.write(spark, "/var/lib/node_exporter/kafkawire.prom")
    metrics.attach(spark).to_table().show()

A listener takes what Spark reports of each batch, so tasks and brokers do nothing more. ``docs/metrics.md``
lists the names, and what Spark does not report.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

from .errors import OptionError, printable
from .model import TopicPartition
from .source.edge import edge
from .source.group_offsets import kafka_offsets
from .source.progress_events import ProgressListener
from .source.query_plans import BYTES_FIGURE, figure_of, has_plans, scans, stream_execution

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["QueryMetrics", "attach", "serve", "write"]

#: Partitions of a source up to which each has series of its own, unless asked.
_PARTITIONS_MAX: Final = 200
#: Topics of a source up to which each has series of its own; above that they share one topic, ``*``.
_TOPICS_MAX: Final = 200
#: Names of queries that are remembered: those that have ended make room.
_QUERIES_MAX: Final = 100
#: Earlier ends of partitions, from which lag in seconds follows: their time apart, and how many are kept.
_ENDS_APART_S: Final = 5.0
_ENDS_COUNT_MAX: Final = 240
_ENDS_OFFSETS_MAX: Final = 100_000

#: Spark's names of event times, and ours.
_EVENT_TIMES: Final = {
    "max": "kafkawire_event_time_timestamp_seconds",
    "watermark": "kafkawire_watermark_timestamp_seconds",
}
_SCHEMA: Final = "metric STRING, labels MAP<STRING, STRING>, value DOUBLE"

#: Metrics and their meanings, in the order in which they are shown. Those that end in _total only grow.
METRICS: Final[Mapping[str, str]] = {
    "kafkawire_query_active": "1 while the query runs, 0 after its end.",
    "kafkawire_query_failures_total": "Ends of the query with an error.",
    "kafkawire_batches_total": "Batches that the query has finished.",
    "kafkawire_batch_seconds_total": "Time of all finished batches.",
    "kafkawire_phase_seconds_total": "Time of all finished batches, by Spark's phases of a batch.",
    "kafkawire_last_batch_timestamp_seconds": "Time when the last batch began.",
    "kafkawire_last_batch_seconds": "Time that the last batch took.",
    "kafkawire_last_batch_records": "Records that the last batch read.",
    "kafkawire_last_batch_bytes": "Bytes of columns that Spark got from the tasks of the last batch.",
    "kafkawire_records_read_total": "Records that finished batches have read.",
    "kafkawire_rows_written_total": "Rows that finished batches have written.",
    "kafkawire_event_time_timestamp_seconds": "Latest event time of the last batch with rows.",
    "kafkawire_watermark_timestamp_seconds": "Watermark of the query.",
    "kafkawire_observed": "Result of DataFrame.observe in the last batch.",
    "kafkawire_partitions": "Partitions of the topic that the query reads.",
    "kafkawire_lag_records": "Records between the end of the last batch and the ends of the partitions.",
    "kafkawire_lag_bytes": "The same in bytes of the logs, in Kafka 0.7.",
    "kafkawire_lag_seconds": "Most time that the oldest unread record of the topic waits, where it is known.",
    "kafkawire_partition_offset": "Offset where the last batch ended.",
    "kafkawire_partition_latest_offset": "End of the partition when the last batch was planned.",
    "kafkawire_partition_lag_records": "Records between these two offsets.",
    "kafkawire_partition_lag_bytes": "Bytes between these two offsets, in Kafka 0.7.",
    "kafkawire_partition_lag_seconds": "Most time that the oldest unread record waits, where it is known.",
}

#: A metric, its labels, its value.
Sample = tuple[str, dict[str, str], float]
Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class _Source:
    """Place of a query in a source of Kafka."""

    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    latest: Mapping[TopicPartition, int] = field(default_factory=dict)
    #: Times, and the ends of the partitions then, oldest first.
    earlier: deque[tuple[float, Mapping[TopicPartition, int]]] = field(default_factory=deque)

    def move(
        self, time_s: float, ends: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]
    ) -> None:
        """Take the end of a batch, and the ends of the partitions when it was planned, if they are known."""
        self.ends, self.latest = ends, latest
        if not latest or (self.earlier and time_s - self.earlier[-1][0] < _ENDS_APART_S):
            return
        self.earlier.append((time_s, latest))
        while len(self.earlier) > min(_ENDS_COUNT_MAX, max(_ENDS_OFFSETS_MAX // len(latest), 2)):
            self.earlier.popleft()

    def waits_s(self, partition: TopicPartition, now_s: float) -> float | None:
        """Most time that the oldest unread record of a partition waits; None if it is not known."""
        end = self.ends.get(partition, 0)
        if self.latest[partition] <= end:
            return 0.0
        for time_s, latest in reversed(self.earlier):
            if latest.get(partition, 0) <= end:
                return now_s - time_s
        return None


@dataclass(slots=True)
class _Query:
    """Metrics of one query, under its name, or under its id if it has no name."""

    is_active: bool = True
    run_id: str = ""
    #: Values of metrics that only grow, and those of the last batch, by metric and labels.
    totals: dict[Key, float] = field(default_factory=dict)
    last: dict[Key, float] = field(default_factory=dict)
    sources: dict[str, _Source] = field(default_factory=dict)
    time_s: float = 0.0

    def add(self, metric: str, value: float, **labels: str) -> None:
        key = metric, tuple(labels.items())
        self.totals[key] = self.totals.get(key, 0) + value


class QueryMetrics(ProgressListener):
    """Metrics of the streaming queries of a session. ``attach``, ``serve`` and ``write`` make one.

    ``partitions`` says whether each partition has series of its own; by default those of a source with at
    most 200 partitions have.
    """

    def __init__(self, spark: SparkSession, *, partitions: bool | None = None) -> None:
        self._session = spark
        self._partitions = partitions
        self._queries: dict[str, _Query] = {}
        self._runs: dict[str, str] = {}
        self._lock = threading.Lock()
        self._server: Any = None
        self._path: str | None = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Count a query from its start on; one of the same name continues the counts."""
        with self._lock:
            self._begin(event.name or str(event.id), str(event.runId))
        self._write()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take the figures of a batch."""
        progress = event.progress
        size = self._batch_bytes(progress)
        with self._lock:
            name = progress.name or str(progress.id)
            if str(progress.runId) not in self._runs:  # it began before this listened
                self._begin(name, str(progress.runId))
            query = self._queries[name]
            _take(query, progress)
            if size is not None:
                query.last["kafkawire_last_batch_bytes", ()] = size
        self._write()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Count the end of a query; its metrics stay."""
        with self._lock:
            query = self._queries.get(self._runs.pop(str(event.runId), ""))
            if query is not None and query.run_id == str(event.runId):
                query.is_active = False
                if event.exception is not None:
                    query.add("kafkawire_query_failures_total", 1)
        self._write()

    def _begin(self, name: str, run_id: str) -> None:
        query = self._queries.setdefault(name, _Query())
        query.is_active, query.run_id = True, run_id
        query.add("kafkawire_query_failures_total", 0)
        self._runs[run_id] = name
        ended = [item for item, other in self._queries.items() if not other.is_active]
        for item in ended[: max(len(self._queries) - _QUERIES_MAX, 0)]:
            del self._queries[item]

    def _batch_bytes(self, progress: StreamingQueryProgress) -> int | None:
        """Bytes that Spark got from the tasks of a batch; None if it has planned another one since."""
        if not has_plans(self._session):
            return None
        from py4j.protocol import Py4JError  # a client of Spark Connect has none

        try:
            execution = stream_execution(self._session, str(progress.id), progress.batchId)
            return execution and sum(figure_of(node, BYTES_FIGURE) for node in scans(execution))
        except Py4JError:  # a platform may keep its plans from Python
            return None

    def samples(self) -> list[Sample]:
        """All metrics with their labels and values."""
        with self._lock:
            return [
                (metric, {"query": name, **labels}, value)
                for name, query in self._queries.items()
                for metric, labels, value in self._samples(query)
            ]

    def _samples(self, query: _Query) -> Iterator[Sample]:
        yield "kafkawire_query_active", {}, float(query.is_active)
        for (metric, labels), value in (query.totals | query.last).items():
            yield metric, dict(labels), value
        for name, source in query.sources.items():
            yield from self._source_samples(name, source, query.time_s)

    def _source_samples(self, name: str, source: _Source, now_s: float) -> Iterator[Sample]:
        known = source.latest or source.ends
        each_topic = len({partition.topic for partition in known}) <= _TOPICS_MAX
        each_partition = len(known) <= _PARTITIONS_MAX if self._partitions is None else self._partitions
        topics: Counter[tuple[str, str]] = Counter()
        waits: dict[str, float | None] = {}
        for partition in known:
            topic = partition.topic if each_topic else "*"
            labels = {"source": name, "topic": partition.topic, "partition": partition.name}
            topics["kafkawire_partitions", topic] += 1
            if each_partition and partition in source.ends:
                yield "kafkawire_partition_offset", labels, source.ends[partition]
            if partition not in source.latest:
                continue
            unit = "records" if partition.broker is None else "bytes"
            lag = max(source.latest[partition] - source.ends.get(partition, 0), 0)
            waited = source.waits_s(partition, now_s)
            topics[f"kafkawire_lag_{unit}", topic] += lag
            # One partition whose time is not known may have the oldest record of all.
            longest = waits.get(topic, 0.0)
            waits[topic] = None if waited is None or longest is None else max(waited, longest)
            if each_partition:
                yield "kafkawire_partition_latest_offset", labels, source.latest[partition]
                yield f"kafkawire_partition_lag_{unit}", labels, lag
                if waited is not None:
                    yield "kafkawire_partition_lag_seconds", labels, waited
        for (metric, topic), value in topics.items():
            yield metric, {"source": name, "topic": topic}, value
        for topic, longest in waits.items():
            if longest is not None:
                yield "kafkawire_lag_seconds", {"source": name, "topic": topic}, longest

    def to_table(self) -> DataFrame:
        """All metrics as rows: ``metric``, ``labels`` (a map), ``value``. Needs no library of Prometheus."""
        rows = [(metric, labels, float(value)) for metric, labels, value in self.samples()]
        return self._session.createDataFrame(rows, _SCHEMA)

    def collect(self) -> Iterable[Metric]:
        """All metrics as families of ``prometheus_client``, whose registries call this."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        kinds = (GaugeMetricFamily, CounterMetricFamily)
        families = {name: kinds[name.endswith("_total")](name, meaning) for name, meaning in METRICS.items()}
        for metric, labels, value in self.samples():
            families[metric].add_sample(metric, labels, value)
        return [family for family in families.values() if family.samples]

    @property
    def port(self) -> int:
        """The port that is served, also where ``port=0`` lets the system choose one."""
        return int(self._server.server_port)

    def _write(self) -> None:
        if self._path is not None:
            from prometheus_client import write_to_textfile

            write_to_textfile(self._path, self._registry())

    def _registry(self) -> CollectorRegistry:
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry()
        registry.register(self)
        return registry

    def close(self) -> None:
        """Listen no longer, and close the port. A file stays with its last content."""
        self._session.streams.removeListener(self)
        self._path = None
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


@edge
def attach(spark: SparkSession, *, partitions: bool | None = None) -> QueryMetrics:
    """Take metrics of the session's streaming queries from now on, for ``QueryMetrics.to_table``."""
    metrics = QueryMetrics(spark, partitions=partitions)
    spark.streams.addListener(metrics)
    return metrics


@edge
def serve(
    spark: SparkSession, port: int = 9400, *, address: str = "127.0.0.1", partitions: bool | None = None
) -> QueryMetrics:
    """Serve metrics of the session's streaming queries to Prometheus. ``address="0.0.0.0"`` lets other
    machines ask, with no login. Raises ``OptionError`` (fatal)."""
    with _library("metrics.serve"):
        from prometheus_client import start_http_server

        metrics = QueryMetrics(spark, partitions=partitions)
        metrics._server, _ = start_http_server(port, address, metrics._registry())
    spark.streams.addListener(metrics)
    return metrics


@edge
def write(spark: SparkSession, path: str, *, partitions: bool | None = None) -> QueryMetrics:
    """Keep a file of metrics for the node exporter: written now and after each batch, replaced as a whole.
    Raises ``OptionError`` (fatal)."""
    metrics = QueryMetrics(spark, partitions=partitions)
    metrics._path = path
    with _library("metrics.write"):
        metrics._write()
    spark.streams.addListener(metrics)
    return metrics


@contextmanager
def _library(what: str) -> Iterator[None]:
    """Raises ``OptionError`` (fatal) for a missing library, and for a port or file that is refused."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise OptionError(f"{what} needs Prometheus' library: run pip install {error.name}") from error
    except OSError as error:
        raise OptionError(f"{what}: {printable(error)}; name another port or file") from error


def _take(query: _Query, progress: StreamingQueryProgress) -> None:
    """Add the figures of a batch to those of its query."""
    phases = {phase: ms / 1000 for phase, ms in progress.durationMs.items()}
    took_s = phases.pop("triggerExecution", progress.batchDuration / 1000)
    query.time_s = _seconds(progress.timestamp)
    record_count = 0
    query.add("kafkawire_batches_total", 1)
    query.add("kafkawire_batch_seconds_total", took_s)
    for phase, phase_s in phases.items():
        query.add("kafkawire_phase_seconds_total", phase_s, phase=phase)
    for number, source in enumerate(progress.sources):
        if ends := kafka_offsets(source.endOffset):
            record_count += source.numInputRows
            query.add("kafkawire_records_read_total", source.numInputRows, source=str(number))
            location = query.sources.setdefault(str(number), _Source())
            location.move(query.time_s, ends, kafka_offsets(source.latestOffset))
    # Spark reports -1 for a sink that does not count.
    query.add("kafkawire_rows_written_total", max(progress.sink.numOutputRows, 0))
    query.last = {
        ("kafkawire_last_batch_timestamp_seconds", ()): query.time_s,
        ("kafkawire_last_batch_seconds", ()): took_s,
        ("kafkawire_last_batch_records", ()): record_count,
        **{
            (name, ()): _seconds(progress.eventTime[key])
            for key, name in _EVENT_TIMES.items()
            if key in progress.eventTime
        },
        **{
            ("kafkawire_observed", (("observation", observation), ("column", column))): float(value)
            for observation, row in progress.observedMetrics.items()
            for column, value in row.asDict().items()
            if isinstance(value, int | float)
        },
    }


def _seconds(text: str) -> float:
    """Seconds since 1970 of a time in a progress, which ends in Z."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
