"""Lineage of topics for OpenLineage: which queries read and write them, with schemas and offsets.

    from spark_kafkawire import lineage

    lineage.attach(spark)

Events go where OpenLineage's own client sends them: ``OPENLINEAGE_URL``, ``openlineage.yml``, or a client of
yours. Each query has a START, streams a RUNNING for the first batch and each minute, and all a COMPLETE or
FAIL. Datasets are ``kafka://host:port`` and the topic. Needs the library ``openlineage-python``, and a
session with a JVM.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

import attr
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType

from .errors import LOG, OptionError, counted, printable
from .model import TopicPartition
from .options import Discovery, chooses_table, drop_other_side
from .options.connection import parse_discovery
from .options.table import raw_options
from .source.edge import edge
from .source.group_offsets import kafka_offsets
from .source.progress_events import ProgressListener
from .source.query_plans import (
    BYTES_FIGURE,
    ROWS_FIGURE,
    SOURCE_NAME,
    class_of,
    figure_of,
    has_plans,
    leaves,
    options_of,
    relation_of,
    rows_written,
    scans,
)
from .source.worker import KafkaWirePartition
from .version import VERSION

try:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import (
        error_message_run,
        input_statistics_input_dataset,
        job_type_job,
        output_statistics_output_dataset,
        processing_engine_run,
        schema_dataset,
    )
    from openlineage.client.generated.base import InputDatasetFacet, OutputDatasetFacet
    from openlineage.client.uuid import generate_new_uuid
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{error}: spark_kafkawire.lineage needs OpenLineage's library: run pip install openlineage-python",
        name=error.name,
    ) from None

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["QueryLineage", "attach"]

#: Time between two RUNNING events of a query, seconds.
_INTERVAL_S: Final = 60.0
#: Partitions of a dataset, and Spark partitions of a read, up to which events have offsets.
_PARTITIONS_MAX: Final = 1000
_PRODUCER: Final = f"https://github.com/spark-kafkawire/spark-kafkawire/tree/v{VERSION}"
#: Options of a streaming query that Spark hands on to its sink.
_OF_SPARK: Final = frozenset(("checkpointlocation", "queryname"))
#: Columns of a job that copies messages as they are.
_MESSAGES: Final = StructType().add("key", BinaryType()).add("value", BinaryType())

#: Start and end of a query in each partition; the start of a stream's first batch is not known.
Offsets = dict[TopicPartition, tuple[int | None, int]]


@attr.define
class OffsetStatistics(input_statistics_input_dataset.InputStatisticsInputDatasetFacet):
    """OpenLineage's facet of what was read, and ``start`` and ``end`` of each partition."""

    offsets: dict[str, dict[str, int | None]] | None = attr.field(default=None)


@dataclass(slots=True)
class _Topics:
    """Topics of one cluster that a query reads or writes, with their schema and counts."""

    namespace: str
    names: list[str]
    schema: StructType
    row_count: int | None = None
    size: int | None = None
    offsets: Offsets = field(default_factory=dict)

    def inputs(self) -> Iterator[InputDataset]:
        """Datasets of topics that were read. Rows of several topics are not known apart."""
        is_alone = len(self.topics) == 1
        for name in self.topics:
            ranges = {
                tp.name: {"start": start, "end": end}
                for tp, (start, end) in self.offsets.items()
                if tp.topic == name
            }
            statistics = OffsetStatistics(
                rowCount=self.row_count if is_alone else None,
                size=self.size if is_alone else None,
                offsets=ranges if 0 < len(ranges) <= _PARTITIONS_MAX else None,
                producer=_PRODUCER,
            )
            facets: dict[str, InputDatasetFacet] = (
                {"inputStatistics": statistics} if self.row_count is not None else {}
            )
            yield InputDataset(self.namespace, name, facets=self._facets(), inputFacets=facets)

    def outputs(self) -> Iterator[OutputDataset]:
        facet = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
        for name in self.topics:
            counted = facet(rowCount=self.row_count, producer=_PRODUCER)
            facets: dict[str, OutputDatasetFacet] = (
                {"outputStatistics": counted} if counted.rowCount is not None else {}
            )
            yield OutputDataset(self.namespace, name, facets=self._facets(), outputFacets=facets)

    @property
    def topics(self) -> list[str]:
        """Topics whose offsets are known, else those that the options name."""
        return sorted({tp.topic for tp in self.offsets}) or self.names

    def _facets(self) -> dict[str, Any]:
        fields = [_field(item.name, item.dataType) for item in self.schema]
        return {"schema": schema_dataset.SchemaDatasetFacet(fields=fields, producer=_PRODUCER)}


@dataclass(slots=True)
class _Query:
    """A run of a query, and its topics by the number of their source. ``query_id`` is that of a stream."""

    run_id: str
    job: str
    sources: dict[int, _Topics] = field(default_factory=dict)
    sinks: list[_Topics] = field(default_factory=list)
    query_id: str | None = None
    written_count: int = 0
    reported: datetime | None = None


class JobTopics(_Query):
    """A run of a job that moves records in tasks of its own: the job records its topics when it has
    finished."""

    def read(self, discovery: Discovery, counts: Mapping[str, int], schema: StructType = _MESSAGES) -> None:
        """Record topics that were read, with the number of messages of each."""
        self.sources.update(enumerate(_counted(discovery, counts, schema), len(self.sources)))

    def wrote(self, discovery: Discovery, counts: Mapping[str, int], schema: StructType = _MESSAGES) -> None:
        """Record topics that were written, with the number of messages of each."""
        self.sinks.extend(_counted(discovery, counts, schema))


class QueryLineage(ProgressListener):
    """Sends events of the queries of a session that read or write topics. ``attach`` makes one."""

    def __init__(
        self, spark: SparkSession, client: OpenLineageClient, namespace: str, interval_s: float
    ) -> None:
        self._session = spark
        self._client = client
        self._namespace = namespace
        self._interval = timedelta(seconds=interval_s)
        self._queries: dict[str, _Query] = {}
        self.is_closed = False
        # One thread, so events keep their order, and no query waits for a server of lineage.
        self._sender = ThreadPoolExecutor(1, "kafkawire-lineage")

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Send START if the query reads or writes topics."""
        running = self._session.streams._jsqm.get(str(event.id)).streamingQuery()
        relations = [item for item in leaves(running.analyzedPlan()) if "Streaming" in class_of(item)]
        # A progress has each source once, in the order of the plan.
        relations = [item for number, item in enumerate(relations) if item not in relations[:number]]
        sources = {
            number: topics
            for number, relation in enumerate(relations)
            if class_of(relation) == "StreamingRelationV2" and relation.sourceName() == SOURCE_NAME
            if (topics := _topics(dict(relation.extraOptions()), relation, read=True, stream=True))
        }
        if sources or running.sink().name() == SOURCE_NAME:
            job = event.name or str(event.id)
            query = _Query(str(event.runId), job, sources, query_id=str(event.id))
            self._queries[query.run_id] = query
            self._send(RunState.START, query, datetime.fromisoformat(event.timestamp.replace("Z", "+00:00")))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Count a batch; send RUNNING for the first one, and after each interval."""
        progress = event.progress
        query = self._queries.get(str(progress.runId))
        if query is None:
            return
        for number, topics in query.sources.items():
            source = progress.sources[number]
            starts = kafka_offsets(source.startOffset)
            for tp, end in kafka_offsets(source.endOffset).items():
                topics.offsets[tp] = topics.offsets.get(tp, (starts.get(tp), end))[0], end
            topics.row_count = (topics.row_count or 0) + source.numInputRows
        query.written_count += max(progress.sink.numOutputRows, 0)
        now = datetime.now(timezone.utc)
        if query.reported is None or now - query.reported >= self._interval:
            query.reported = now
            self._send(RunState.RUNNING, query, now)

    def batch_of_stream_ended(self, plan: Any) -> None:
        """Find the topic that a stream writes, which only the plan of a batch has."""
        for query in list(self._queries.values()):
            if not query.sinks and query.query_id == plan.queryId():
                query.sinks = _read_written(plan)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Send COMPLETE, also for a query that was stopped, or FAIL."""
        if (query := self._queries.pop(str(event.runId), None)) is not None:
            state = RunState.COMPLETE if event.exception is None else RunState.FAIL
            self._send(state, query, datetime.now(timezone.utc), event.exception)

    def batch_ended(self, execution: Any, action: str, seconds: float, error: str | None) -> None:
        """Send START and COMPLETE or FAIL of a batch query that reads or writes topics: Spark reports its
        end only."""
        now = datetime.now(timezone.utc)
        sources = _read(execution)
        sinks = _read_written(execution.analyzed())
        if error is None:
            for sink in sinks:
                sink.row_count = rows_written(execution.executedPlan())
        for item in sources.values() if error is None else ():
            LOG.info(
                "batch read of %s: %s (%d bytes of columns) of %s in %.1f s of the query",
                *(printable(", ".join(item.topics)), counted(item.row_count or 0, "row"), item.size or 0),
                *(counted(len(item.offsets), "partition"), seconds),
            )
        if topics := [name for item in (*sources.values(), *sinks) for name in item.topics]:
            job = ".".join([action, *topics])
            query = _Query(str(generate_new_uuid()), job, sources, sinks)
            self._send(RunState.START, query, now - timedelta(seconds=seconds))
            self._send(RunState.COMPLETE if error is None else RunState.FAIL, query, now, error)

    @contextmanager
    def job(self, name: str) -> Iterator[JobTopics]:
        """Send START, and at the end of the block COMPLETE or FAIL, with the topics that it has recorded."""
        query = JobTopics(str(generate_new_uuid()), name)
        self._send(RunState.START, query, datetime.now(timezone.utc))
        try:
            yield query
        except BaseException as error:
            self._send(RunState.FAIL, query, datetime.now(timezone.utc), str(error) or type(error).__name__)
            raise
        self._send(RunState.COMPLETE, query, datetime.now(timezone.utc))

    def _send(self, state: RunState, query: _Query, time: datetime, error: str | None = None) -> None:
        spark = self._session
        engine = processing_engine_run.ProcessingEngineRunFacet(
            spark.version, "spark", VERSION, producer=_PRODUCER
        )
        facets: dict[str, Any] = {"processing_engine": engine}
        if error is not None:
            text = printable(error.partition("\n")[0])
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                text, "PYTHON", producer=_PRODUCER
            )
        kind = job_type_job.JobTypeJobFacet(
            "STREAMING" if query.query_id else "BATCH", "SPARK", "QUERY", producer=_PRODUCER
        )
        if query.query_id:
            for sink in query.sinks:
                sink.row_count = query.written_count
        name = f"{spark.sparkContext.appName}.{query.job}"
        event = RunEvent(
            eventType=state,
            eventTime=time.isoformat(),
            run=Run(query.run_id, facets),
            job=Job(self._namespace, name, {"jobType": kind}),
            inputs=[item for topics in query.sources.values() for item in topics.inputs()],
            outputs=[item for topics in query.sinks for item in topics.outputs()],
            producer=_PRODUCER,
        )
        self._sender.submit(self._emit, event)

    def _emit(self, event: RunEvent) -> None:
        try:
            self._client.emit(event)
        except Exception as error:
            LOG.warning(
                "lineage: an event of %s was not sent: %s", printable(event.job.name), printable(error)
            )

    def close(self) -> None:
        """Listen no longer, and send what is left."""
        self.is_closed = True
        self._session.streams.removeListener(self)
        self._sender.shutdown()


class _Batches:
    """Spark's ``QueryExecutionListener``, which is called at the end of each batch query of a session."""

    def __init__(self, lineage: QueryLineage) -> None:
        self._lineage = lineage

    def onSuccess(self, action: str, execution: Any, duration_ns: int) -> None:
        """Report a query that has succeeded."""
        self._report(action, execution, duration_ns / 1e9, None)

    def onFailure(self, action: str, execution: Any, error: Any) -> None:
        """Report a query that has failed."""
        self._report(action, execution, 0.0, str(error.getMessage()))

    def _report(self, action: str, execution: Any, seconds: float, error: str | None) -> None:
        # The JVM has no way to take this listener away: each call makes a new proxy.
        if self._lineage.is_closed:
            return
        try:
            if class_of(execution) != "IncrementalExecution":
                self._lineage.batch_ended(execution, action, seconds, error)
            elif class_of(execution.logical()) == "WriteToMicroBatchDataSource":
                self._lineage.batch_of_stream_ended(execution.logical())
        except Exception as fault:  # the JVM would log its frames
            LOG.warning("lineage: a query has no event: %s", printable(fault))

    class Java:
        """The interface that the JVM sees."""

        implements: Final = ["org.apache.spark.sql.util.QueryExecutionListener"]


@edge
def attach(
    spark: SparkSession,
    client: OpenLineageClient | None = None,
    *,
    namespace: str = "default",
    interval_s: float = _INTERVAL_S,
) -> QueryLineage:
    """Send events of the session's streams and batches from now on.

    ``client`` is OpenLineage's, by default one as its environment variables and files say; ``namespace`` is
    that of the jobs, whose names are the application's and the query's. Raises ``OptionError`` (fatal) for
    Spark Connect.
    """
    if not has_plans(spark):
        raise OptionError("lineage.attach: Spark Connect hides plans: run it on the driver")
    from pyspark.java_gateway import ensure_callback_server_started  # a client of Spark Connect has none

    lineage = QueryLineage(spark, client or OpenLineageClient(), namespace, interval_s)
    spark.streams.addListener(lineage)
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    spark._jsparkSession.listenerManager().register(_Batches(lineage))
    return lineage


def _read(execution: Any) -> dict[int, _Topics]:
    """Topics that a batch query reads, with what its tasks have counted."""
    from py4j.protocol import Py4JError

    relations = [item for item in map(relation_of, leaves(execution.analyzed())) if item is not None]
    sources = {
        number: topics
        for number, of in enumerate(relations)
        if (topics := _topics(options_of(of), of, read=True))
    }
    try:
        nodes = list(scans(execution)) if sources else []
    except Py4JError:  # the query has failed before it had a plan
        return sources
    for number, topics in sources.items():
        for node in nodes:
            if node.table().equals(relations[number].table()):
                topics.row_count, topics.size = figure_of(node, ROWS_FIGURE), figure_of(node, BYTES_FIGURE)
                topics.offsets = dict(_read_planned(node))
    return sources


def _read_planned(node: Any) -> Iterator[tuple[TopicPartition, tuple[int, int]]]:
    """The ranges that a scan was planned to read: its partitions are pickles of our own."""
    partitions = node.inputPartitions()
    if partitions.size() > _PARTITIONS_MAX:
        return
    ranges: dict[TopicPartition, list[int]] = {}
    for index in range(partitions.size()):
        partition = pickle.loads(partitions.apply(index).pickedPartition())
        if not isinstance(partition, KafkaWirePartition):  # Spark's own, of an empty plan
            return
        for task in partition.tasks:
            of = task.range
            ranges.setdefault(of.topic_partition, []).extend((of.start_offset, of.stop_offset))
    for tp, ends in ranges.items():
        yield tp, (min(ends), max(ends))


def _read_written(plan: Any) -> list[_Topics]:
    """The topic that a query writes, if its options name it."""
    kind = class_of(plan)
    options: Mapping[str, str] = {}
    if kind == "AppendData" and (relation := relation_of(plan.table())) is not None:
        options = options_of(relation)
    elif kind != "WriteToMicroBatchDataSource" or plan.table().name() != SOURCE_NAME:
        return []
    given = plan.writeOptions().toSeq()
    pairs = (given.apply(index) for index in range(given.size()))
    sink = _topics({**options, **{pair._1(): pair._2() for pair in pairs}}, plan.query(), read=False)
    return [] if sink is None else [sink]


def _topics(options: Mapping[str, str], node: Any, *, read: bool, stream: bool = False) -> _Topics | None:
    """Topics that options name, on the cluster that they name; None for tables of a cluster, for log
    directories, and for rows that name their topics."""
    named = {name.lower(): value for name, value in options.items() if name.lower() not in _OF_SPARK}
    if chooses_table(named) or not {"path", "paths"}.isdisjoint(named):
        return None
    try:
        with raw_options(drop_other_side(named, read=read), read=read, stream=stream) as parsed:
            namespace = _namespace(parse_discovery(parsed))
    except OptionError as error:  # which ends the query itself
        LOG.warning("lineage: no dataset: %s", error)
        return None
    names = [
        name.strip() for name in named.get("subscribe" if read else "topic", "").split(",") if name.strip()
    ]
    return _Topics(namespace, names, StructType.fromJson(json.loads(node.schema().json())))


def _counted(discovery: Discovery, counts: Mapping[str, int], schema: StructType) -> Iterator[_Topics]:
    for topic, count in counts.items():
        yield _Topics(_namespace(discovery), [topic], schema, count)


def _namespace(discovery: Discovery) -> str:
    """``kafka://host:port`` of the first server, as OpenLineage names a cluster; in 0.7 with ZooKeeper's."""
    if discovery.zookeeper_connect is not None:
        return f"kafka://{discovery.zookeeper_connect.partition(',')[0].partition('/')[0]}"
    broker = (discovery.bootstrap_servers or discovery.broker_list)[0]
    return f"kafka://{broker.host}:{broker.port}"


def _field(name: str, kind: DataType) -> schema_dataset.SchemaDatasetFacetFields:
    """A column as OpenLineage names it: what is inside of a type are fields of it."""
    inner: list[tuple[str, DataType]] = []
    if isinstance(kind, StructType):
        inner = [(item.name, item.dataType) for item in kind]
    elif isinstance(kind, ArrayType):
        inner = [("_element", kind.elementType)]
    elif isinstance(kind, MapType):
        inner = [("key", kind.keyType), ("value", kind.valueType)]
    shown = kind.typeName() if inner else kind.simpleString()
    return schema_dataset.SchemaDatasetFacetFields(name, shown, fields=[_field(*item) for item in inner])
