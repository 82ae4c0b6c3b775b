"""Where a streaming query stands, as its checkpoint writes it. Pure.

    {"topic": {"0": 123}}          0.8 and later
    {"topic": {"0-1": 123}}        0.7: broker-partition, and the byte

It is what Spark's own Kafka connector writes, in the same order, so a checkpoint is of either of them.
Spark takes a text that differs from the last one for new data, so the order must not depend on anything
but the names.

Source: Spark's JsonUtils.partitionOffsets, which fills Scala's ``mutable.HashMap``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from ..errors import OptionError, quoted, shown
from ..model import TopicPartition
from ..options.offsets import LOG_SYNTAX, LogSyntax

K = TypeVar("K")

#: Where each log of a query stands: the offset of its next message.
Offsets = Mapping[TopicPartition, int]
#: Stands for an offset that the first batch of a query finds, and so writes into the checkpoint.
UNPINNED: Final = -1

#: A topic of no partitions, and of a name that no topic can have: it tells of the end of a first batch that
#: it has read nothing, for it has pinned all starts. Spark's own connector passes over it.
PIN_MARK: Final = "pinned by kafkawire"
#: The same, where some starts were given, and the batch has read on from there.
PART_MARK: Final = "pinned in part by kafkawire"

#: Scala's table has so many places at first, and twice as many before it is filled to three quarters.
_PLACES: Final = 16


def to_json(offsets: Offsets, start: Offsets | None = None) -> dict[str, dict[str, int]]:
    """The offsets in the order of Spark's connector; ``from_json`` reads them.

    Those of the end of a batch are followed by the mark that its ``start`` asks for.
    """
    by_topic: dict[str, dict[TopicPartition, int]] = {}
    puts = []
    for log in sorted(offsets):
        by_topic.setdefault(log.topic, {})[log] = offsets[log]
        puts.append(log.topic)
    return {
        topic: {log.name: by_topic[topic][log] for log in _partitions(by_topic[topic])}
        for topic in _in_table_order(puts, _text_hash)
    } | _mark(start or {})


def _mark(start: Offsets) -> dict[str, dict[str, int]]:
    pinned = [offset == UNPINNED for offset in start.values()]
    return {PIN_MARK if all(pinned) else PART_MARK: {}} if any(pinned) else {}


def is_pinned(written: Mapping[str, Any]) -> bool:
    """Whether the end of a first batch, as the checkpoint has it, is one that has pinned starts."""
    return PIN_MARK in written or PART_MARK in written


def from_json(written: Any, syntax: LogSyntax, *, unpinned: bool = False) -> dict[TopicPartition, int]:
    """The offsets that a checkpoint holds; only those of a first batch's start may be ``unpinned``.

    Raises ``OptionError`` (fatal) for what no query of these options has written.
    """
    offsets: dict[TopicPartition, int] = {}
    if not isinstance(written, dict):
        raise _unreadable(written, syntax)
    for topic, partitions in written.items():
        if not isinstance(partitions, dict):
            raise _unreadable(written, syntax)
        for name, offset in partitions.items():
            log = syntax.keyed(topic, name)
            if log is None:
                raise _of_other_partitions(written, topic, name, syntax)
            is_offset = isinstance(offset, int) and not isinstance(offset, bool) and offset.bit_length() < 64
            if not is_offset or offset < (UNPINNED if unpinned else 0):
                raise _unreadable(written, syntax)
            offsets[log] = offset
    return offsets


def _unreadable(written: Any, syntax: LogSyntax) -> OptionError:
    return OptionError(
        f"checkpointLocation: {quoted(json.dumps(written))} is not offsets of the form "
        f'{{"topic":{{"{syntax.key_example}":123}}}}: the checkpoint is of another source'
    )


def _of_other_partitions(written: Any, topic: str, name: str, syntax: LogSyntax) -> OptionError:
    if all(other.keyed(topic, name) is None for other in LOG_SYNTAX.values()):
        return _unreadable(written, syntax)
    return OptionError(
        f"checkpointLocation: the offsets of {shown(topic)} are of partition {quoted(name)}, where the "
        f"brokers of these options have partitions like '{syntax.key_example}': the checkpoint is of a query "
        "with another kind of Kafka (0.7, or 0.8 and later); give this query one of its own"
    )


def _partitions(logs: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The logs of one topic in their order; those of 0.7, which Spark's connector has not, by broker."""
    logs = list(logs)
    if any(log.broker is not None for log in logs):
        return sorted(logs, key=lambda log: (log.broker or 0, log.partition))
    by_number = {log.partition: log for log in logs}
    return [by_number[number] for number in _in_table_order(by_number, lambda number: number)]


def _in_table_order(puts: Iterable[K], hash_of: Callable[[K], int]) -> list[K]:
    """The keys as a table holds them that they were put into one after the other, some again."""
    place_count = _PLACES
    order: dict[K, int] = {}
    for key in puts:
        if (len(order) + 1) * 4 >= place_count * 3:  # also where the key is there already
            place_count *= 2
        order.setdefault(key, len(order))
    spread = {key: hash_of(key) ^ (hash_of(key) >> 16) for key in order}
    return sorted(order, key=lambda key: (spread[key] & (place_count - 1), _signed(spread[key]), order[key]))


def _text_hash(text: str) -> int:
    """Java's ``String.hashCode`` as an unsigned number."""
    value = 0
    utf16 = text.encode("utf-16-be")
    for at in range(0, len(utf16), 2):
        value = (31 * value + (utf16[at] << 8 | utf16[at + 1])) & 0xFFFFFFFF
    return value


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value
