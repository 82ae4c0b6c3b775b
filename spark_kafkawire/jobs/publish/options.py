"""Options of a publication, from those that the user gives: parsed once, before Spark starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from spark_kafkawire.errors import OptionError
from spark_kafkawire.options import ReadOptions, WriteOptions, reading_options
from spark_kafkawire.options.delivery import ACKS_OF
from spark_kafkawire.source.writer import WRITE_SCHEMAS, WriteSchema

from ..arguments import (
    TRANSACTION_OPTIONS,
    arg,
    check_needs,
    connection_args,
    exactly_once_options,
    flag,
    nested,
    positive,
    spark_path,
)
from .input import Input, MessageColumns

_ACKS: Final = ("acks", "kafka.acks")
#: Seconds without new messages before partitions are compared: a 0.7 broker flushes after 3 s, and checks for
#: that every 3 s.
SETTLE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class StateOptions:
    """Options of a run that writes each row once: the folder of its state, and how to read the partitions
    back.

    ``reading`` are the options of that read for Spark, ``read`` are the same options parsed. Both select no
    topics yet.
    """

    folder: str
    settle_s: float
    read: ReadOptions
    reading: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """Options of a run, of which ``connection`` are those of the data source. Raises ``OptionError`` (fatal).

    ``write`` are the parsed options. ``state`` is None for a run that keeps no state.
    """

    topic: str | None = arg("--topic", "the topic to write to", one_of="topic", required=True)
    topic_column: str | None = arg(
        "--topic-column", "the column with the topic of each row", metavar="NAME", one_of="topic"
    )
    folder: str | None = arg(
        "--state",
        "record what is published in this folder, on any file system that Spark supports; use a new "
        "folder for each input",
        spark_path,
        group="each row once, also after a killed run",
    )
    settle_s: float | None = arg(
        "--settle-seconds",
        "with --state: how long the topic must be idle before a run looks for the messages of a killed "
        f"one (default: {SETTLE_S:g}); six times that if other programs write to it; for 0.7 longer than the "
        "brokers' flush interval",
        positive,
        needs=("folder",),
    )
    exactly_once: bool = flag(
        "--exactly-once",
        "write in transactions: readers see all rows once, or none (Kafka 0.11 or later)",
    )
    transactional_id: str | None = arg(
        "--transactional-id",
        "with --exactly-once: the kafka.transactional.id of this write, which no other program may use "
        "(default: a name that --state generates)",
        metavar="NAME",
        needs=("exactly_once",),
    )
    connection: Mapping[str, str] = connection_args(
        refuses={
            **TRANSACTION_OPTIONS,
            "batch": TRANSACTION_OPTIONS["delivery"],
            "topic": "is not an option here; set --topic or --topic-column",
        }
    )
    write: WriteOptions = field(init=False)
    state: StateOptions | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.exactly_once:
            self._check_exactly_once()
        check_needs(self)
        given = {**self.connection, **({} if self.topic is None else {"topic": self.topic})}
        write = WriteOptions.parse({**given, **exactly_once_options(self)})
        if self.folder is not None:
            if not self.exactly_once:
                write = _findable(write, is_given=any(name.lower() in _ACKS for name in given))
            settle_s = SETTLE_S if self.settle_s is None else self.settle_s
            object.__setattr__(self, "state", _state(write, given, self.folder, settle_s))
        object.__setattr__(self, "write", write)

    def _check_exactly_once(self) -> None:
        if self.folder is None and self.transactional_id is None:
            raise OptionError(
                "argument --exactly-once needs --state or --transactional-id, by which the next run finds "
                "what a killed one left"
            )
        if self.settle_s is not None:
            raise OptionError(
                "argument --settle-seconds: with --exactly-once nothing is waited for; leave it out"
            )

    @property
    def schema(self) -> WriteSchema:
        """The columns that the brokers take."""
        return _schema(self.write)


@dataclass(frozen=True, slots=True)
class PublishArguments:
    """All arguments of the job. Raises ``OptionError`` (fatal)."""

    input: Input = nested(Input)
    columns: MessageColumns = nested(MessageColumns)
    options: PublishOptions = nested(PublishOptions)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", replace(self.columns, topic=self.options.topic_column))
        self.columns.check(self.options.schema)


def _findable(write: WriteOptions, *, is_given: bool) -> WriteOptions:
    """The options with the ``acks`` that a state needs."""
    needed = ACKS_OF[write.discovery.generation].safest
    if write.acks != needed and is_given:
        raise OptionError(
            f"option acks: with --state it is {needed}, by which rows are found again; leave it out"
        )
    # Only 0.7 has another default, and nothing else there depends on it.
    return replace(write, acks=needed)


def _state(write: WriteOptions, given: Mapping[str, str], folder: str, settle_s: float) -> StateOptions:
    reading = reading_options(given)
    if "headers" in _schema(write).stored:
        reading["includeHeaders"] = "true"
    return StateOptions(folder, settle_s, ReadOptions.parse({**reading, "subscribe": "any"}), reading)


def _schema(write: WriteOptions) -> WriteSchema:
    return WRITE_SCHEMAS[write.discovery.generation]
