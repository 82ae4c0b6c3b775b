"""The stream writer: each batch of a query as a batch write, at least once, or exactly once by transactions.

Spark makes one for each batch, to be pickled for its tasks, and another one to hear how the batch ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ..errors import LOG, KafkaWireError, OptionError
from ..options import TransactionOptions, WriteOptions
from ..records import compiler
from .edge import edge
from .exactly_once import create_exactly_once_writer
from .worker import batch_of_task, freeze_objects
from .writer import KafkaWireBatchWriter, KafkaWireCommitMessage, create_writer, forget_encodings, summary_of

#: Options of the query itself, which Spark hands on to its sink.
_ASYNC: Final = "asyncProgressTrackingEnabled"
_OF_SPARK: Final = frozenset(
    (
        *("checkpointlocation", "queryname", _ASYNC.lower(), "asyncprogresstrackingcheckpointintervalms"),
        "_asyncprogresstrackingoverridesinksupportcheck",
    )
)
#: The advice in the error of a failed delivery.
_REPEATED: Final = (
    "the batch is written again, by a retried task or when the query starts again: rows that arrived are "
    "duplicated"
)


class KafkaWireStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of one batch. Raises ``OptionError`` when it is made with wrong options or columns."""

    # In the output mode complete the rows of each batch are appended, too, as by Spark's own sink.
    def __init__(self, raw: Mapping[str, str], schema: StructType) -> None:
        options = _options_of(raw)
        self._query = "" if options.typed is None else options.typed.query
        self._is_exactly_once = options.transactions is not None
        self._writer: KafkaWireBatchWriter | KafkaWireError
        try:
            if options.transactions is None:
                self._writer = create_writer(options, schema, False, _REPEATED)
            else:
                self._writer = create_exactly_once_writer(options, schema, False, is_stream=True)
        except OptionError:
            raise
        except KafkaWireError as error:
            # The tasks raise it. The commit of a finished batch needs no broker: an error here would write
            # the batch again.
            self._writer = error
        # Both are made in planning processes, which Spark asks again for each batch.
        freeze_objects(compiler.loaded())

    @edge
    def write(self, iterator: Iterator[pa.RecordBatch]) -> KafkaWireCommitMessage:
        """Write all rows of one task. Raises as the batch writer does, with the batch's number."""
        try:
            return self._make_writer().write(iterator)
        except KafkaWireError as error:
            raise error.locate(batch_of_task()) from error

    @edge
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log what was written, after it was committed where the options ask for that. Raises
        ``DeliveryError`` (fatal for the query) where it is not proven to be."""
        if not self._is_exactly_once:
            LOG.info("batch %d: wrote %s", batchId, summary_of(messages))
            return
        try:
            self._make_writer().commit(messages)
        except KafkaWireError as error:
            raise error.locate(f"batch {batchId}") from error

    @edge
    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Abort what was written, or log what stays: Kafka takes nothing back."""
        forget_encodings(self._query)
        if self._is_exactly_once:
            self._give_up(messages, batchId)
            return
        LOG.warning(
            "batch %d failed, and what its tasks have sent stays in the partitions; finished tasks wrote "
            "%s; when the query starts again, it writes the batch again, and duplicates what is there",
            batchId,
            summary_of(messages),
        )

    def _give_up(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Abort the transactions of a batch. Log an error of the abort: the query has failed already, for
        another reason, which Spark reports."""
        try:
            self._make_writer().abort(messages)
        except KafkaWireError as error:
            LOG.warning(
                "batch %d failed, and what its tasks left open could not be aborted: %s; it keeps readers "
                "waiting until the query starts again, or its transactions time out",
                *(batch_id, error),
            )

    def _make_writer(self) -> KafkaWireBatchWriter:
        """The batch's own writer. Raises the error of its creation."""
        if isinstance(self._writer, KafkaWireError):
            raise self._writer
        return self._writer


def _options_of(raw: Mapping[str, str]) -> WriteOptions:
    """The options of one batch. Raises ``OptionError`` (fatal)."""
    options = WriteOptions.parse({name: raw[name] for name in raw if name.lower() not in _OF_SPARK})
    if options.transactions is not None:
        _check_names(options.transactions)
        _check_progress(raw)
    if options.typed is not None:
        options = replace(options, typed=replace(options.typed, query=_query_of(raw)))
    if "bootstraptimeout" in {name.lower() for name in raw}:
        return options
    # Each batch is planned in a process that may know nothing of those before it.
    return replace(options, net=options.net.patient)


def _query_of(raw: Mapping[str, str]) -> str:
    """A name of the query, for its schemas: its options of Spark, which differ from those of others."""
    return "query " + " ".join(f"{name}={raw[name]}" for name in sorted(raw) if name.lower() in _OF_SPARK)


def _check_progress(raw: Mapping[str, str]) -> None:
    """Refuse progress that Spark writes after the rows: a restart must repeat the same batches."""
    given = {name.lower(): value.strip().lower() for name, value in raw.items()}
    if given.get(_ASYNC.lower(), "false") != "false":
        raise OptionError(
            f"option {_ASYNC}: delivery=exactly-once needs the offsets of each batch in the checkpoint "
            "before its rows are written; a restart would make one batch of several, and write their rows "
            f"again: leave {_ASYNC} out, or write at least once"
        )


def _check_names(transactions: TransactionOptions) -> None:
    if not transactions.is_named:
        raise OptionError(
            "option kafka.transactional.id is not set, and a stream with delivery=exactly-once needs one: "
            "set a name that is the same in all its runs, and that no other write has"
        )
    if transactions.batch:
        raise OptionError("option batch: a stream counts its batches itself; leave it out")
