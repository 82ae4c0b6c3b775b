"""Options of a publication, from those that the user gives: parsed once, before Spark starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from spark_kafkawire.errors import OptionError
from spark_kafkawire.options import ReadOptions, WriteOptions, reading_options
from spark_kafkawire.options.delivery import ACKS_OF, EXACTLY_ONCE
from spark_kafkawire.source.writer import WRITE_SCHEMAS, WriteSchema

_ACKS: Final = ("acks", "kafka.acks")
#: Options that arguments of the job set.
_OF_TRANSACTIONS: Final = ("delivery", "kafka.transactional.id", "batch")

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


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """Options of a run. ``state`` is None for a run that keeps no state. ``transactional_id`` is the name of
    an exactly-once write, empty if the state names it; None for other writes."""

    write: WriteOptions
    state: StateOptions | None = None
    transactional_id: str | None = None

    @classmethod
    def parse(
        cls,
        given: Mapping[str, str],
        *,
        state: str | None = None,
        settle_s: float | None = None,
        exactly_once: bool = False,
        transactional_id: str | None = None,
    ) -> PublishOptions:
        """From the options of a write, and arguments of the job. Raises ``OptionError`` (fatal)."""
        for name in given:
            if name.lower() in _OF_TRANSACTIONS:
                raise OptionError(
                    f"argument --option: {name} is set by --exactly-once and --transactional-id; leave it out"
                )
        if exactly_once:
            return cls._exactly_once(given, state, settle_s, transactional_id)
        if transactional_id is not None:
            raise OptionError("argument --transactional-id needs --exactly-once; add that, or leave it out")
        write = WriteOptions.parse(given)
        if state is None:
            if settle_s is not None:
                raise OptionError("argument --settle-seconds needs --state; add that, or leave it out")
            return cls(write)
        write = _findable(write, is_given=any(name.lower() in _ACKS for name in given))
        return cls(write, _state(write, given, state, SETTLE_S if settle_s is None else settle_s))

    @classmethod
    def _exactly_once(
        cls, given: Mapping[str, str], state: str | None, settle_s: float | None, name: str | None
    ) -> PublishOptions:
        if state is None and name is None:
            raise OptionError(
                "argument --exactly-once needs --state or --transactional-id, by which the next run finds "
                "what a killed one left"
            )
        if settle_s is not None:
            raise OptionError(
                "argument --settle-seconds: with --exactly-once nothing is waited for; leave it out"
            )
        named = {} if name is None else {"kafka.transactional.id": name}
        write = WriteOptions.parse({**given, "delivery": EXACTLY_ONCE, **named})
        return cls(write, None if state is None else _state(write, given, state, SETTLE_S), name or "")

    @property
    def schema(self) -> WriteSchema:
        """The columns that the brokers take."""
        return _schema(self.write)


def with_topic(options: Mapping[str, str], topic: str | None) -> dict[str, str]:
    """The options of the write; the topic is an argument of its own. Raises ``OptionError`` (fatal)."""
    if any(name.lower() == "topic" for name in options):
        raise OptionError("argument --option: topic is not an option here; set --topic or --topic-column")
    return {**options, "topic": topic} if topic is not None else dict(options)


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
