"""Rows to topics; with a state directory each row once, however often runs are killed.

Kafka takes nothing back, and 0.7 does not even answer. So a run that finds an unfinished one reads
what the topic has got since that began, and writes the rows that are not there:

    begin    STATE/publication.json   how many rows for which topic, their checksum, and the cluster
    record   STATE/run-N.json         where all logs end that run N may write to
    settle   from the second run on: wait until the logs have not grown for a while
    write    all rows in the first run; later those that are not among the records since the first one
    compare  read the logs again: rows that are missing are written (a worker may be lost), and those
             that are there too often are told
    finish   STATE/done.json

Why no row is missing or doubled, wherever a run is killed:

- Nothing is sent before a run has recorded the ends of all logs that its tasks may write to, and a
  log is read from the first end that was recorded of it. So whatever runs have written is found.
- Tasks end only when their rows are where the next run finds them (acks=all; acks=verify in 0.7).
- Spark may run a task again, whose first attempt has written nobody knows what. Such a task writes
  nothing; the comparison tells what is missing, and the next round writes it.
- What a killed run had still under way is waited for: its executors end when they see that the driver
  is gone, and a 0.7 broker shows messages when it flushes them. What comes later than that, or an
  executor that goes on although nobody hears of it, cannot be held off. It can double rows, and
  the comparison then finds them.

Rows are compared by content (``publish_difference``). So nobody else may write rows that are equal to
these meanwhile, and the log must keep what it got: a log that has lost its start is an error, one
that compaction thins out is not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from ...clients.writing.targets import targets_type
from ...errors import DeliveryError, OptionError, RowError, quoted
from ...options import WriteOptions
from ...source.writer import KafkaWireBatchWriter, create_writer
from ..shell.progress import Progress
from ..spark.hadoop_files import Files
from ..spark.stages import watching
from ..state.file_system import named
from ..state.positions import Positions
from ..state.sole_run import sole_run
from .difference import Difference, Survey, survey
from .options import SETTLE_S, proven, shown_target, write_schema
from .state import Done, Publication, PublishState, TopicRows
from .target_logs import TargetLogs
from .write import write, write_once
from .written import Written

_RUN_AGAIN: Final = "run again with the same --state, which writes what is missing"
#: How often rows are written that are still missing, as Spark's ``spark.task.maxFailures``.
_ROUNDS_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class Published:
    """What a run came to: what it has written, how many rows it found there, and how many messages are
    there too often; the last two are None without a state directory. ``was_done`` by an earlier run."""

    written: Sequence[Written]
    found_count: int | None = None
    doubled_count: int | None = None
    was_done: bool = False


def publish(rows: DataFrame, options: Mapping[str, str], progress: Progress) -> Published:
    """Write all rows, as ``df.write`` does.

    Raises ``OptionError`` before anything is sent; what a task raises comes as Spark's own error.
    """
    writer = create_writer(WriteOptions.parse(options), rows.schema, overwrite=False)
    with progress.work("writing") as work, watching(rows.sparkSession, work):
        return Published(write(rows, writer))


class ResumablePublish:
    """One run of a publication that a state directory knows.

    ``rows`` must be the same whenever they are computed, and ``state`` is a folder of any file
    system of Hadoop's.
    """

    def __init__(
        self,
        rows: DataFrame,
        options: Mapping[str, str],
        state: str,
        progress: Progress,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._spark: SparkSession = rows.sparkSession
        if self._spark.conf.get("spark.speculation", "false") == "true":
            raise OptionError(
                "argument --state: spark.speculation runs tasks twice, which doubles rows; unset it"
            )
        self._rows = rows
        self._progress = progress
        self._settle_s = settle_s
        options = proven(options)
        self._options = WriteOptions.parse(options)
        self._schema = write_schema(options)
        self._logs = TargetLogs(self._spark, options)
        self._files = Files(self._spark)
        self._folder = state
        self._state = PublishState(self._files, state)

    def run(self) -> Published:
        """Write the rows that are not there yet.

        Raises ``OptionError`` where the directory is of another publication, ``DataLossError`` where
        a log has lost what was written since, ``FileError`` where another run works with the directory,
        ``RowError``, and ``DeliveryError`` and others where rows could not be written (all fatal); what is
        written stays, and the next run goes on.
        """
        with sole_run(self._files, [self._folder]):
            return self._run()

    def _run(self) -> Published:
        publication, difference = self._begin()
        if done := self._state.done():
            return Published((), done.messages, done.messages_doubled, was_done=True)
        writer = create_writer(self._options, self._rows.schema, overwrite=False, advice=_RUN_AGAIN)
        is_first = self._state.run_count == 0
        number = self._state.begin_run(self._ends(writer, publication))
        written, doubled_count = self._write(writer, difference, is_first=is_first)
        if self._state.run_count > number + 1:
            raise DeliveryError(
                f"another run has begun in {named(self._folder)} while this one wrote; there are "
                f"{doubled_count:,} messages like the rows too often by now: let one run end before the next"
            )
        self._state.finish(Done(publication.count, doubled_count))
        own_count = sum(each.message_count for each in written)
        return Published(written, publication.count - own_count, doubled_count)

    def _begin(self) -> tuple[Publication, Difference]:
        rows, topic = self._rows, self._options.topic
        if topic is not None:
            rows = rows.withColumn("topic", lit(topic))
        with self._progress.work("looking at the rows") as work, watching(self._spark, work):
            found = survey(rows)
        publication = Publication(shown_target(self._options.discovery), self._topics(found))
        self._state.begin(publication)
        return publication, Difference(rows, found.columns_with_nulls, self._schema)

    def _topics(self, found: Survey) -> dict[str, TopicRows]:
        topics = {} if self._options.topic is None else {self._options.topic: TopicRows(0, "0")}
        for topic, rows in found.topics.items():
            if topic is None:
                raise RowError(f"argument --topic-column: {rows.count} row(s) name no topic; fill it")
            if fault := targets_type(self._options).topic_fault(topic):
                raise RowError(f"argument --topic-column: topic {quoted(topic)}: {fault}")
            topics[topic] = rows
        return topics

    def _ends(self, writer: KafkaWireBatchWriter, publication: Publication) -> Positions:
        return self._logs.ends([log for topic in publication.topics for log in writer.logs_of(topic)])

    def _write(
        self, writer: KafkaWireBatchWriter, difference: Difference, *, is_first: bool
    ) -> tuple[list[Written], int]:
        """Write what is missing until nothing is; what was written, and how many messages are doubled."""
        written: list[Written] = []
        for number in range(_ROUNDS_MAX):
            rows = self._rows
            if number or not is_first:
                self._progress.step(f"waiting until the logs have not grown for {self._settle_s:g} s")
                self._logs.settle(self._state.starts(), self._settle_s)
                with self._progress.work("looking for what is there") as work, watching(self._spark, work):
                    missing = difference.missing(self._records(difference)).select(*rows.columns)
                    # Of shuffled rows Spark may run a whole stage again, whose tasks do not know of it.
                    rows = missing.localCheckpoint()
            with self._progress.work("writing") as work, watching(self._spark, work):
                written += write_once(rows, writer)
            with self._progress.work("comparing") as work, watching(self._spark, work):
                comparison = difference.compare(self._records(difference))
            if not comparison.missing_count:
                return written, comparison.doubled_count
        raise DeliveryError(
            f"{comparison.missing_count:,} rows are still missing after {_ROUNDS_MAX} rounds, in each of "
            "which Spark ran tasks again; see why executors are lost, and run again"
        )

    def _records(self, difference: Difference) -> DataFrame:
        """What was appended to all logs since the publication began, up to now."""
        return self._logs.records(self._state.starts(), difference.record_columns)
