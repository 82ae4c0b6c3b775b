"""A run of ``publish``: writes all rows, or with a state the missing ones, in Spark tasks that count
what they write; and the report of it.

    written = write(rows, create_writer(WriteOptions.parse(options), rows.schema, overwrite=False))
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from spark_kafkawire.clients.writing import write_partitions_type
from spark_kafkawire.clients.writing.sender import PartitionReceipt
from spark_kafkawire.errors import DeliveryError, KafkaWireError, OptionError, RowError, plural, quote
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.source.exactly_once import (
    ExactlyOnceWriter,
    TransactionMessage,
    create_exactly_once_writer,
)
from spark_kafkawire.source.writer import KafkaWireBatchWriter, create_writer
from spark_kafkawire.tables import Row

from ..ending import Interrupted
from ..files import printable_path
from ..progress import Progress, align_rows, print_summary
from ..spark import Files, watching
from ..state import Positions, name_fields, name_order, sole_run
from .comparison import Difference, Survey, TargetPartitions, survey
from .options import PublishOptions
from .state import Done, Publication, PublishState, TopicRows

_RUN_AGAIN: Final = "run again with the same --state, which writes what is missing"
#: How often rows are written that are still missing, as Spark's ``spark.task.maxFailures``.
_ROUNDS_MAX: Final = 4


def publish(rows: DataFrame, options: PublishOptions, progress: Progress) -> Published:
    """Write the rows: all of them, as ``df.write`` does, or with a state each one once.

    Raises ``OptionError`` before anything is sent; errors of a task come as Spark's own error, with a state
    as ``ResumablePublish.run`` says.
    """
    if options.exactly_once:
        return publish_exactly_once(rows, options, options.transactional_id or "", progress)
    if options.folder is not None:
        return ResumablePublish(rows, options, progress).run()
    writer = create_writer(options.write, rows.schema, overwrite=False)
    with progress.work("writing") as work, watching(rows.sparkSession, work):
        return Published(write(rows, writer))


def publish_exactly_once(
    rows: DataFrame, options: PublishOptions, name: str, progress: Progress
) -> Published:
    """Write the rows exactly once, in transactions; ``name`` is that of the write, empty if the state names
    it.

    Raises as ``create_exactly_once_writer`` and ``ExactlyOnceWriter.commit``. With a state it also raises
    ``OptionError`` if the state is of another publication, and ``FileError`` if another run uses it.
    """
    spark = rows.sparkSession
    if options.folder is None:
        return _write_exactly_once(rows, options.write, progress)
    files, folder = Files(spark), options.folder
    with sole_run(files, [folder]):
        state = PublishState(files, folder)
        publication, _ = survey_rows(rows, options.write, progress, name)
        state.begin(publication)
        if done := state.done():
            return Published((), done.messages, was_done=True)
        assert options.write.transactions is not None
        named = replace(options.write.transactions, prefix=name or state.transactional_id, is_named=True)
        write = replace(options.write, transactions=named)
        published = _write_exactly_once(rows, write, progress, publication.count)
        state.finish(Done(publication.count, 0))
        return published


def _write_exactly_once(
    rows: DataFrame, options: WriteOptions, progress: Progress, count: int | None = None
) -> Published:
    writer = create_exactly_once_writer(options, rows.schema, overwrite=False)
    with progress.work("writing", count) as work, watching(rows.sparkSession, work):
        return Published(*write_exactly_once(rows, writer))


def survey_rows(
    rows: DataFrame, options: WriteOptions, progress: Progress, transactional_id: str | None = None
) -> tuple[Publication, frozenset[str]]:
    """The rows to publish, and the columns that are null in some row. Raises ``RowError`` (fatal)."""
    if options.topic is not None:
        rows = rows.withColumn("topic", lit(options.topic))
    with progress.work("looking at the rows") as work, watching(rows.sparkSession, work):
        result = survey(rows)
    topics = _topics(result, options)
    return Publication(options.discovery.place, topics, transactional_id), result.columns_with_nulls


def _topics(result: Survey, options: WriteOptions) -> dict[str, TopicRows]:
    topics = {} if options.topic is None else {options.topic: TopicRows(0, "0")}
    for topic, rows in result.topics.items():
        if topic is None:
            raise RowError(f"argument --topic-column: {rows.count} row(s) name no topic; fill it")
        if fault := write_partitions_type(options).topic_fault(topic):
            raise RowError(f"argument --topic-column: topic {quote(topic)}: {fault}")
        topics[topic] = rows
    return topics


class ResumablePublish:
    """A run of a publication that a state directory records.

    ``rows`` must be the same whenever they are computed, and the state's folder is of any file system of
    Hadoop's.
    """

    def __init__(self, rows: DataFrame, options: PublishOptions, progress: Progress) -> None:
        assert options.folder is not None
        self._spark: SparkSession = rows.sparkSession
        if self._spark.conf.get("spark.speculation", "false") == "true":
            raise OptionError(
                "argument --state: spark.speculation runs tasks twice, which doubles rows; unset it"
            )
        self._rows = rows
        self._progress = progress
        self._options = options.write
        self._schema = options.schema
        self._partitions = TargetPartitions(self._spark, options)
        self._files = Files(self._spark)
        self._folder = options.folder
        self._state = PublishState(self._files, self._folder)

    def run(self) -> Published:
        """Write the rows that the topic lacks.

        Raises ``OptionError`` where the directory is of another publication, ``DataLossError`` where a
        partition has lost messages since the first run, ``FileError`` where another run works with the
        directory, ``RowError``, and ``DeliveryError`` and others where rows could not be written (all fatal);
        written rows stay, and the next run continues.
        """
        with sole_run(self._files, [self._folder]):
            return self._run()

    def _run(self) -> Published:
        publication, difference = self._begin()
        if done := self._state.done():
            return Published((), done.messages, done.messages_doubled, was_done=True)
        writer = create_writer(self._options, self._rows.schema, overwrite=False, advice=_RUN_AGAIN)
        all_count = None if self._state.run_count else publication.count
        number = self._state.begin_run(self._ends(writer, publication))
        written, doubled_count = self._write(writer, difference, all_count)
        if self._state.run_count > number + 1:
            are = plural(doubled_count, "message is", "messages are")
            raise DeliveryError(
                f"another run has begun in {printable_path(self._folder)} while this one wrote, and "
                f"{doubled_count:,} {are} in the topic more often than the rows are: let one run end before "
                "the next"
            )
        self._state.finish(Done(publication.count, doubled_count))
        own_count = sum(item["messages"] for item in written)
        return Published(written, publication.count - own_count, doubled_count)

    def _begin(self) -> tuple[Publication, Difference]:
        rows, topic = self._rows, self._options.topic
        if topic is not None:
            rows = rows.withColumn("topic", lit(topic))
        publication, columns_with_nulls = survey_rows(self._rows, self._options, self._progress)
        self._state.begin(publication)
        return publication, Difference(rows, columns_with_nulls, self._schema)

    def _ends(self, writer: KafkaWireBatchWriter, publication: Publication) -> Positions:
        return self._partitions.ends(
            [tp for topic in publication.topics for tp in writer.partitions_of(topic)]
        )

    def _write(
        self, writer: KafkaWireBatchWriter, difference: Difference, all_count: int | None
    ) -> tuple[list[Row], int]:
        """Write missing rows until none is missing; ``all_count`` is that of the rows if all are missing, as
        in a first run. Returns the number of written and of duplicate messages."""
        written: list[Row] = []
        for _ in range(_ROUNDS_MAX):
            rows = self._rows
            if all_count is None:
                self._progress.step(
                    f"waiting until the partitions have not grown for {self._partitions.settle_s:g} s"
                )
                self._partitions.settle(self._state.starts())
                with self._progress.work("looking for what is there") as work, watching(self._spark, work):
                    missing = difference.missing(self._records(difference)).select(*rows.columns)
                    # Spark may run a whole stage of shuffled rows again, and its tasks cannot detect that.
                    rows = missing.localCheckpoint()
            with self._progress.work("writing", all_count) as work, watching(self._spark, work):
                written += write_once(rows, writer)
            with self._progress.work("comparing") as work, watching(self._spark, work):
                comparison = difference.compare(self._records(difference))
            if not comparison.missing_count:
                return written, comparison.doubled_count
            all_count = None
        are = plural(comparison.missing_count, "row is", "rows are")
        raise DeliveryError(
            f"{comparison.missing_count:,} {are} still missing after {_ROUNDS_MAX} rounds, in each of "
            "which Spark ran tasks again; see why executors are lost, and run again"
        )

    def _records(self, difference: Difference) -> DataFrame:
        """Records appended to all partitions since the publication began."""
        return self._partitions.records(self._state.starts(), difference.record_columns)


T = TypeVar("T")

_RESULT: Final = pa.schema([("result", pa.binary())])


def write(rows: DataFrame, writer: KafkaWireBatchWriter) -> list[Row]:
    """Write rows as ``df.write`` does. Returns the written messages, sorted by partition.

    The numbers are the commit messages of the tasks. They do not include messages of other programs, nor
    those of a task that failed and ran again. Errors of a task come as Spark's own error.
    """
    results = _call_in_tasks(rows, lambda batches: writer.write(batches).receipts)
    return total(receipt for receipts in results for receipt in receipts)


def write_once(rows: DataFrame, writer: KafkaWireBatchWriter) -> list[Row]:
    """Write rows that Spark must not write twice; rows that are not written are noticed later.

    A task that Spark runs again, because an executor is lost, writes nothing: the rows that its first attempt
    wrote are unknown. A task that fails ends as others do, so that Spark does not run it again; its error is
    raised when all tasks have ended.
    """
    outcomes = _call_in_tasks(rows, partial(_attempt_once, writer))
    for _, error in outcomes:
        if error is not None:
            raise error
    return total(receipt for receipts, _ in outcomes for receipt in receipts)


def write_exactly_once(rows: DataFrame, writer: ExactlyOnceWriter) -> tuple[list[Row], int]:
    """Write rows in transactions that are committed as one: the result, and the number of rows that an
    earlier run of the write has committed. One attempt of each task counts, however often Spark runs it."""

    def attempt(batches: Iterator[pa.RecordBatch]) -> tuple[TransactionMessage, Sequence[PartitionReceipt]]:
        message = writer.write(batches)
        assert isinstance(message, TransactionMessage)
        return message, message.receipts

    messages: list[TransactionMessage] = []
    try:
        results = _call_in_tasks(rows, attempt)
        messages = [message for message, _ in results]
        writer.commit(messages)
    except Interrupted as interrupted:
        interrupted.outcome = f"{writer.settle(messages)}; run again with the same arguments"
        raise
    except Exception:
        writer.abort(messages)
        raise
    found_count = sum(item.row_count for item in messages if item.transaction is None)
    return total(receipt for _, receipts in results for receipt in receipts), found_count


def _attempt_once(
    writer: KafkaWireBatchWriter, batches: Iterator[pa.RecordBatch]
) -> tuple[Sequence[PartitionReceipt], KafkaWireError | None]:
    """The receipts of a task and its error; nothing of both if Spark ran it again."""
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        return (), None
    try:
        return writer.write(batches).receipts, None
    except KafkaWireError as error:
        return (), error


def _call_in_tasks(rows: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], T]) -> list[T]:
    """The results of the function for the rows of each task."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([[pickle.dumps(function(iter(batches)))]], schema=_RESULT)

    return [pickle.loads(row.result) for row in rows.mapInArrow(run, "result binary").collect()]


def report(published: Published, *, as_json: bool) -> dict[str, Any]:
    """The summary that is still to be printed: its partitions are printed here unless ``as_json``.

    Raises ``DeliveryError`` (fatal) where rows are in a topic too often; all is printed then.
    """
    if not as_json and published.written:
        print(*align_rows(table_of(published.written)), sep="\n", flush=True)
    summary = summary_of(published.written, with_partitions=as_json)
    if published.found_count is None:
        return summary
    summary["messages_found"] = published.found_count
    if published.doubled_count is None:
        return summary
    summary["messages_doubled"] = published.doubled_count
    if published.doubled_count and not published.was_done:
        print_summary(summary, as_json=as_json)
        are = plural(published.doubled_count, "message is", "messages are")
        raise DeliveryError(
            f"{published.doubled_count:,} {are} in the topic more often than the rows are: another producer "
            "wrote equal ones, or a killed run was still writing; remove the duplicates where the "
            "topic is read, Kafka takes nothing back"
        )
    return summary


@dataclass(frozen=True, slots=True)
class Published:
    """Result of a run: the messages written, the rows found in the topic, and the duplicate messages, each
    None if unknown. ``was_done`` by an earlier run."""

    written: Sequence[Row]
    found_count: int | None = None
    doubled_count: int | None = None
    was_done: bool = False

    def counts(self) -> Mapping[str, int]:
        """Messages written to each topic."""
        counts: Counter[str] = Counter()
        for row in self.written:
            counts[row["topic"]] += row["messages"]
        return counts


def total(receipts: Iterable[PartitionReceipt]) -> list[Row]:
    """A row for each log, from the receipts of all tasks: its messages, bytes of their batches, and first and
    last offset if brokers reported them. Messages of other producers may lie between them. Pure."""
    by_partition: dict[TopicPartition, list[PartitionReceipt]] = {}
    for receipt in receipts:
        by_partition.setdefault(receipt.topic_partition, []).append(receipt)
    return [
        {
            **name_fields(tp),
            "messages": sum(item.message_count for item in own),
            "bytes": sum(item.size for item in own),
            "start_offset": min(_list_known(item.start_offset for item in own), default=None),
            "stop_offset": max(_list_known(item.stop_offset for item in own), default=None),
        }
        for tp, own in sorted(by_partition.items(), key=lambda item: name_order(item[0]))
    ]


def _list_known(offsets: Iterable[int | None]) -> list[int]:
    return [item for item in offsets if item is not None]


def summary_of(written: Sequence[Row], *, with_partitions: bool) -> dict[str, object]:
    """The totals, and with ``with_partitions`` those of each partition."""
    totals = {name: sum(item[name] for item in written) for name in ("messages", "bytes")}
    return {**totals, **({"partitions": [*written]} if with_partitions else {})}


def table_of(written: Sequence[Row]) -> list[list[str]]:
    """A row of text for each partition."""
    return [
        [
            f"{TopicPartition(item['topic'], item['partition'], item.get('broker'))}",
            f"{item['messages']:,} {plural(item['messages'], 'message')}",
            f"{item['bytes']:,} bytes",
            "" if (first := item["start_offset"]) is None else f"offsets {first} to {item['stop_offset']}",
        ]
        for item in written
    ]
