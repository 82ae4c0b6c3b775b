"""The batch writer: checked and planned once on the driver, then one ``write`` for each task; and the
columns that can be written, with the errors for other columns.

Planning and committing are in processes of their own, and import nothing of how rows are written.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..clients.writing.sender import PartitionReceipt, Sender, WriteTotals
from ..errors import LOG, DeliveryError, KafkaWireError, OptionError, close_matches, counted, printable, quote
from ..kept import Kept
from ..model import Generation, TopicPartition
from .edge import edge
from .worker import Packed, freeze_imports, freeze_objects

if TYPE_CHECKING:
    import pyarrow as pa

    from ..clients.writing import WritePartitions
    from ..clients.writing.partitioner import Partitioner, QueueCapacity
    from ..clients.writing.rows import Rows
    from ..clients.writing.typed_values import ColumnEncoding
    from ..options import TypedOptions, WriteOptions


#: The advice in the error of a failed delivery, unless the caller has another.
_REPEATED: Final = (
    "if Spark runs the task again, it writes all its rows again, and rows that arrived are duplicated"
)
#: Batches that one partition gets in a run at most, where a task writes much: to cut rows more often costs
#: time.
_RUN_BATCHES_MAX: Final = 8


@dataclass(frozen=True)
class KafkaWireCommitMessage(WriterCommitMessage):
    """Totals of one task. ``receipts`` are those of each partition, sorted. They stay in the process that
    wrote: the driver has the messages of all tasks."""

    totals: WriteTotals = WriteTotals()
    receipts: tuple[PartitionReceipt, ...] = field(default=(), kw_only=True, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "receipts": ()}


class KafkaWireBatchWriter(DataSourceArrowWriter):
    """Appends rows to the partitions of the topics. Travels to the tasks, without ZooKeeper's credential.

    ``stored`` names the columns whose content is stored, ``encodings`` are those of typed columns.
    """

    def __init__(
        self,
        options: WriteOptions,
        targets: WritePartitions,
        stored: frozenset[str],
        encodings: tuple[ColumnEncoding, ...] = (),
        advice: str = _REPEATED,
    ) -> None:
        # What committing does without.
        self._of_tasks = Packed((options, targets, encodings))
        self._acks = options.acks
        self._stored = stored
        self._advice = advice

    @property
    def _options(self) -> WriteOptions:
        return self._of_tasks.value[0]

    @property
    def _targets(self) -> WritePartitions:
        return self._of_tasks.value[1]

    @property
    def _encodings(self) -> tuple[ColumnEncoding, ...]:
        return self._of_tasks.value[2]

    def partitions_of(self, topic: str) -> tuple[TopicPartition, ...]:
        """All partitions that rows of a topic may go to; what tasks get of the writer after that keeps to
        them.

        Asking makes the topic where the brokers are set up to. Raises ``DiscoveryError`` (fatal).
        """
        return self._targets.addressable(topic)

    @edge
    def write(self, iterator: Iterator[pa.RecordBatch]) -> KafkaWireCommitMessage:
        """Write all batches of one task.

        Raises ``RowError`` before anything of the batch at fault is sent, ``DiscoveryError``,
        ``ConnectFailed``, ``DeliveryError`` (all fatal for the task).
        """
        freeze_imports()
        from ..net.retry import Spent
        from ..records import compiler
        from ..records.arrays import keep_memory

        keep_memory()
        spent = Spent()
        try:
            message = self._write(iterator)
        except DeliveryError as error:
            raise error.advise(self._advice) from error
        finally:
            freeze_objects(compiler.loaded())
        seconds, retried_count, slowest = spent.seconds, spent.retried_count, spent.slowest
        totals = replace(message.totals, seconds=seconds, retried_count=retried_count, slowest=slowest)
        return replace(message, totals=totals)

    def _write(self, iterator: Iterator[pa.RecordBatch]) -> KafkaWireCommitMessage:
        from ..clients.writing.rows import to_rows

        context = TaskContext.get()
        task = context.partitionId() if context else 0
        encoded = self._encoder()
        with self._sender(task) as sender:
            partitioner = self._partitioner(task, sender.queue_capacity)
            for number, batch in enumerate(iterator):
                if not batch.num_rows:  # its topic need not be there
                    continue
                try:
                    rows = to_rows(encoded(batch), self._options.topic, self._stored)
                    self._targets.check(rows, self._options)
                    parts = partitioner.split(rows)
                    self._note(sender, rows)
                except KafkaWireError as error:
                    raise error.locate(f"batch {number} of the task") from error
                for partition, records in parts:
                    sender.add(partition, records)
            return self._message(sender)

    def _encoder(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """Encoder of the typed columns of batches; batches without them stay as they are."""
        if not self._encodings:
            return lambda batch: batch
        from ..clients.writing.typed_values import TypedRows

        return TypedRows(self._encodings).encoded

    def _partitioner(self, task: int, queue_capacity: QueueCapacity) -> Partitioner:
        """A partitioner for the rows of one task; ``queue_capacity`` is that of the brokers. Without a seed
        each attempt draws again, with its own generator: a shared one would be the same in all workers that
        Spark forks."""
        from ..clients.writing.partitioner import STRATEGIES, Partitioner

        seed = self._options.partitioner_seed
        draw = random.Random() if seed is None else random.Random(f"{seed}-{task}")
        strategy = STRATEGIES[self._options.partitioner]
        run_bytes_max = _RUN_BATCHES_MAX * self._options.batch_bytes
        return Partitioner(self._targets, draw, strategy, run_bytes_max, queue_capacity)

    def _sender(self, _task: int) -> Sender:
        """A sender for the rows of one task, by its number."""
        return self._targets.sender(self._options)

    def _note(self, sender: Sender, rows: Rows) -> None:
        """Take note of rows before they are sent."""

    def _message(self, sender: Sender) -> KafkaWireCommitMessage:
        """The commit message of a task whose rows have all been handed to its sender."""
        receipts = sender.finish()
        return KafkaWireCommitMessage(WriteTotals.of(receipts), receipts=receipts)

    @edge
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what was written."""
        LOG.info("wrote %s; acks=%s", summary_of(messages), self._acks)

    @edge
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what stays written although the write failed: Kafka takes nothing back."""
        LOG.warning(
            "the write failed, and what its tasks have sent stays in the partitions; finished tasks wrote "
            "%s; writing again duplicates what is there",
            summary_of(messages),
        )


def create_writer(
    options: WriteOptions,
    schema: StructType,
    overwrite: bool,
    advice: str = _REPEATED,
    make: Callable[
        [WriteOptions, WritePartitions, frozenset[str], tuple[ColumnEncoding, ...], str], KafkaWireBatchWriter
    ] = KafkaWireBatchWriter,
) -> KafkaWireBatchWriter:
    """The writer for rows of ``schema``; everything that can be checked before rows is checked.

    ``advice`` is the end of the error of a failed delivery, about writing again; ``make`` creates the writer.

    Raises ``OptionError``, ``DiscoveryError`` (fatal), ``TransportError``, and the errors of the schema
    registry. Nothing is sent.
    """
    from ..clients.features import check_columns_written
    from ..clients.writing import write_partitions_type

    if overwrite:
        raise OptionError('mode "overwrite": a Kafka log can only be appended to; use .mode("append")')
    if options.transactions is not None and make is KafkaWireBatchWriter:
        raise OptionError(
            "option delivery: exactly-once is for df.write and df.writeStream, and not for this job; leave "
            "it out"
        )
    columns, kind = WRITE_SCHEMAS[options.discovery.generation], write_partitions_type(options)
    typed = [] if options.typed is None else [of.column for of in options.typed.columns if of.has_schemas]
    columns.check(schema, topic_given=options.topic is not None, typed=typed)
    if options.topic is not None and (fault := kind.topic_fault(options.topic)):
        raise OptionError(f"option topic: {quote(options.topic)}: {fault}")
    encodings = _encodings(options, schema) if typed else ()
    options = kind.plan_versions(options)
    in_headers = ["headers"] if any(item.in_header for item in encodings) else []
    check_columns_written([*schema.fieldNames(), *in_headers], options)
    # From here on everything travels, also the connections of the targets.
    if options.net.delegates:
        from ..cluster.modern.delegation_tokens import net_of_tasks

        options = replace(options, net=net_of_tasks(options.net))
    targets = kind.discover(options)
    if options.topic is not None:
        targets = targets.restrict_to_topic(options.topic)
    discovery = replace(options.discovery, zookeeper_auth=None)
    # Tasks and commits follow this step, in which brokers have answered.
    options = replace(options, discovery=discovery, net=options.net.known, typed=None)
    return make(options, targets, columns.stored, encodings, advice)


#: Encodings of the streaming queries that this process plans, by their options and columns, the newest ones.
#: Spark asks for two writers of each batch, and the latest version of a subject may change between them.
_ENCODINGS: Final = Kept[tuple["TypedOptions", str | None, str], tuple["ColumnEncoding", ...]](100)


def _encodings(options: WriteOptions, schema: StructType) -> tuple[ColumnEncoding, ...]:
    """The encodings of typed columns; those of a streaming query are the same in each batch. Raises as
    ``create_writer`` does."""
    assert options.typed is not None
    key = options.typed, options.topic, schema.json()
    if (encodings := _ENCODINGS.get(key)) is not None:
        return encodings
    from ..planner.write_schemas import column_encodings
    from .spark_versions import arrow_schema

    types = {field.name: field.type for field in arrow_schema(schema)}
    encodings = column_encodings(options.typed, options.topic, types)
    if options.typed.query:
        _ENCODINGS.keep(key, encodings)
    return encodings


def forget_encodings(query: str) -> None:
    """Forget the encodings of a streaming query: when it starts again, its schemas are looked up again."""
    _ENCODINGS.forget(lambda key: key[0].query == query)


def summary_of(messages: Iterable[WriterCommitMessage | None]) -> str:
    """Counts over all tasks, in one line."""
    totals = WriteTotals.sum(item.totals for item in messages if isinstance(item, KafkaWireCommitMessage))
    if not totals.partitions:
        return "nothing"
    topics = ", ".join(map(printable, totals.topics))
    retries = counted(totals.retried_count, "retry", "retries")
    wait_s, broker = totals.slowest
    waited = f", up to {wait_s:.1f} s waiting for {printable(broker)}" if broker else ""
    return (
        f"{totals.message_count} message(s) ({totals.size} bytes) to {totals.partition_count} partition(s) "
        f"of {topics} in {totals.seconds:.1f} s of the slowest task{waited}, with {retries}"
    )


_TEXT: Final = (StringType(), BinaryType())
_HEADERS: Final = (
    ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
    *(MapType(StringType(), BinaryType()), MapType(StringType(), StringType())),
)


@dataclass(frozen=True, slots=True)
class WriteSchema:
    """The columns of a write to brokers of one generation.

    ``columns`` are those that are stored or that choose the log, and the types they may have;
    ``stored`` those that are stored. ``ignored`` are columns of a read that do not choose where a row goes,
    so that a job can write the rows of a read as they are. Another column is an error, or left out with a
    warning where Spark's own connector leaves it out (``drops_others``).
    """

    generation: Generation
    columns: Mapping[str, tuple[DataType, ...]]
    stored: frozenset[str]
    ignored: tuple[str, ...]
    drops_others: bool = False

    def check(self, schema: StructType, *, topic_given: bool, typed: Container[str] = ()) -> None:
        """Check names and types of the columns to write. Columns that are ``typed`` may have any type.

        Raises ``OptionError`` (fatal) naming the column, its type and what it may be.
        """
        names = schema.fieldNames()
        for item in schema.fields:
            if item.name in self.ignored:
                continue
            if item.name not in self.columns:
                self._refuse(item)
            elif item.name not in typed and not any(
                _fits(item.dataType, allowed) for allowed in self.columns[item.name]
            ):
                raise self._wrong_type(item)
            elif names.count(item.name) > 1:
                raise OptionError(f"schema: column {quote(item.name)} appears twice; drop or rename one")
        if "value" not in names:
            raise OptionError(
                "schema: Required attribute 'value' not found; add the column, string or binary, with the "
                "message"
            )
        if not topic_given and "topic" not in names:
            raise OptionError(
                "topic option required when no 'topic' attribute is present. Use the topic option for "
                "setting a topic, or add a column"
            )

    def _wrong_type(self, field: StructField) -> OptionError:
        allowed = " or ".join(item.simpleString() for item in self.columns[field.name])
        has_format = field.name in ("key", "value")
        return OptionError(
            f"schema: {field.name} attribute unsupported type {field.dataType.simpleString()}. "
            f"{field.name} must be a(n) {allowed}: cast it"
            + (f", or set {field.name}Format to the format of its messages" if has_format else "")
        )

    def _refuse(self, field: StructField) -> None:
        close = close_matches(field.name.lower(), self.columns, 1)
        hint = f"did you mean {quote(close[0])}?" if close else "drop it or put it into the value."
        kind = field.dataType.simpleString()
        problem = f"schema: there is no column {quote(field.name)} ({kind}) in Kafka {self.generation.value}"
        if not self.drops_others:
            raise OptionError(f"{problem}; {hint} Known are {', '.join(self.columns)}")
        LOG.warning("%s, it is left out; known are %s", problem, ", ".join(self.columns))


def _fits(given: DataType, allowed: DataType) -> bool:
    # What a type says of nulls does not count.
    if isinstance(allowed, ArrayType | MapType):
        return given.simpleString() == allowed.simpleString()
    return isinstance(given, type(allowed))


WRITE_SCHEMAS: Final[Mapping[Generation, WriteSchema]] = MappingProxyType(
    {
        Generation.V07: WriteSchema(
            generation=Generation.V07,
            columns={
                "key": _TEXT,
                "value": _TEXT,
                "topic": (StringType(),),
                "partition": (IntegerType(),),
                "broker": (IntegerType(),),
            },
            stored=frozenset({"value"}),
            ignored=("offset", "timestamp", "timestampType", "index", "nextOffset"),
        ),
        Generation.MODERN: WriteSchema(
            generation=Generation.MODERN,
            columns={
                "key": _TEXT,
                "value": _TEXT,
                "headers": _HEADERS,
                "topic": (StringType(),),
                "partition": (IntegerType(),),
                "timestamp": (TimestampType(),),
            },
            stored=frozenset({"key", "value", "headers", "timestamp"}),
            ignored=("offset", "timestampType"),
            drops_others=True,
        ),
    }
)
