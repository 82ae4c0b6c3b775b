"""Positions of a streaming query in the JSON of its checkpoint, for both generations. Pure.

    {"topic": {"0": 123}}          0.8 and later
    {"topic": {"0-1": 123}}        0.7: broker-partition, and the byte
    {"topic": {"0": 123}, "topic id kept by kafkawire: topic 4W...dQ": {}}      from 2.8 on

Spark's own Kafka connector writes the same format in the same order, so both can use a checkpoint. Spark
takes a text that differs from the last one for new data, so the order must depend on the names only.

Source: Spark's JsonUtils.partitionOffsets, which fills Scala's ``mutable.HashMap``.
"""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from ..errors import OptionError, printable, quoted
from ..model import TopicPartition
from ..options.offsets import PARTITION_SYNTAX, PartitionSyntax

K = TypeVar("K")

#: Position of a query in each partition: the offset of its next message.
Offsets = Mapping[TopicPartition, int]
#: Placeholder for an offset that the first batch of a query finds and writes to the checkpoint.
UNPINNED: Final = -1

#: A topic without partitions, with a name that no topic can have. It marks the end of a first batch that has
#: read nothing because it pinned all starts. Spark's own connector ignores it.
PIN_MARK: Final = "pinned by kafkawire"
#: The same, if some starts were given, and the batch has read from those.
PART_MARK: Final = "pinned in part by kafkawire"

#: Prefix of another topic without partitions: a topic name, a space, and its id as Kafka's tools show it. A
#: topic that is deleted and recreated gets another id, which reveals it even if it has grown again.
ID_MARK: Final = "topic id kept by kafkawire: "

#: Initial size of Scala's hash table, which doubles before it is three quarters full.
_PLACES: Final = 16


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a query: its offset in each partition, and the known ids of their topics."""

    offsets: Offsets
    topic_ids: Mapping[str, uuid.UUID] = field(default_factory=dict)

    def without(self, topics: Collection[str]) -> Position:
        """The position without some topics."""
        if not topics:
            return self
        offsets = {tp: offset for tp, offset in self.offsets.items() if tp.topic not in topics}
        return Position(offsets, {name: id_ for name, id_ in self.topic_ids.items() if name not in topics})


def to_json(
    offsets: Offsets, start: Offsets | None = None, topic_ids: Mapping[str, uuid.UUID] | None = None
) -> dict[str, dict[str, int]]:
    """Offsets in the order of Spark's connector, followed by the topic ids. ``from_json`` and
    ``ids_from_json`` read them.

    The end of a batch is also followed by the mark that its ``start`` requires.
    """
    by_topic: dict[str, dict[TopicPartition, int]] = {}
    puts = []
    for partition in sorted(offsets):
        by_topic.setdefault(partition.topic, {})[partition] = offsets[partition]
        puts.append(partition.topic)
    return (
        {
            topic: {tp.name: by_topic[topic][tp] for tp in _partitions(by_topic[topic])}
            for topic in _in_table_order(puts, _text_hash)
        }
        | _ids(topic_ids or {})
        | _mark(start or {})
    )


def _ids(topic_ids: Mapping[str, uuid.UUID]) -> dict[str, dict[str, int]]:
    return {f"{ID_MARK}{topic} {id_text(topic_ids[topic])}": {} for topic in sorted(topic_ids)}


def id_text(topic_id: uuid.UUID) -> str:
    """The id of a topic as ``kafka-topics.sh --describe`` shows it. Source: Kafka's Uuid.toString."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def ids_from_json(written: Mapping[str, Any]) -> dict[str, uuid.UUID]:
    """Topic ids in a checkpoint; it has none if Spark's own connector wrote it, or with brokers before 2.8.
    Raises ``OptionError`` (fatal) for a damaged id."""
    return dict(_id_of(key) for key in written if key.startswith(ID_MARK))


def _id_of(key: str) -> tuple[str, uuid.UUID]:
    topic, _, text = key.removeprefix(ID_MARK).partition(" ")
    try:
        found = uuid.UUID(bytes=base64.b64decode(f"{text}==", altchars=b"-_", validate=True))
    except (ValueError, binascii.Error):
        raise OptionError(
            f"checkpointLocation: {quoted(key)} holds no topic id, so the checkpoint is damaged: restore a "
            "copy of it, or give the query another one"
        ) from None
    return topic, found


def _mark(start: Offsets) -> dict[str, dict[str, int]]:
    pinned = [offset == UNPINNED for offset in start.values()]
    return {PIN_MARK if all(pinned) else PART_MARK: {}} if any(pinned) else {}


def is_pinned(written: Mapping[str, Any]) -> bool:
    """True if the end of a first batch in a checkpoint has pinned starts."""
    return PIN_MARK in written or PART_MARK in written


def from_json(written: Any, syntax: PartitionSyntax, *, unpinned: bool = False) -> dict[TopicPartition, int]:
    """Offsets in a checkpoint; only the start of a first batch may be ``unpinned``.

    Raises ``OptionError`` (fatal) for anything that no query with these options has written.
    """
    offsets: dict[TopicPartition, int] = {}
    if not isinstance(written, dict):
        raise _unreadable(written, syntax)
    for topic, partitions in written.items():
        if not isinstance(partitions, dict):
            raise _unreadable(written, syntax)
        for name, offset in partitions.items():
            partition = syntax.keyed(topic, name)
            if partition is None:
                raise _of_other_partitions(written, topic, name, syntax)
            is_offset = isinstance(offset, int) and not isinstance(offset, bool) and offset.bit_length() < 64
            if not is_offset or offset < (UNPINNED if unpinned else 0):
                raise _unreadable(written, syntax)
            offsets[partition] = offset
    return offsets


def _unreadable(written: Any, syntax: PartitionSyntax) -> OptionError:
    return OptionError(
        f"checkpointLocation: {quoted(json.dumps(written))} does not hold offsets of the form "
        f'{{"topic":{{"{syntax.key_example}":123}}}}: another source wrote this '
        "checkpoint; set a new checkpointLocation"
    )


def _of_other_partitions(written: Any, topic: str, name: str, syntax: PartitionSyntax) -> OptionError:
    if all(other.keyed(topic, name) is None for other in PARTITION_SYNTAX.values()):
        return _unreadable(written, syntax)
    return OptionError(
        f"checkpointLocation: the offsets of {printable(topic)} are of partition {quoted(name)}, but the "
        f"brokers of these options have partitions like '{syntax.key_example}': the checkpoint belongs to "
        "a query of another kind of Kafka (0.7, or 0.8 and later); give this query a checkpoint of its own"
    )


def _partitions(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Partitions of one topic in their order; those of 0.7, which Spark's connector lacks, by broker."""
    partitions = list(partitions)
    if any(tp.broker is not None for tp in partitions):
        return sorted(partitions, key=lambda tp: (tp.broker or 0, tp.partition))
    by_number = {tp.partition: tp for tp in partitions}
    return [by_number[number] for number in _in_table_order(by_number, lambda number: number)]


def _in_table_order(puts: Iterable[K], hash_of: Callable[[K], int]) -> list[K]:
    """Keys in the order of a hash table into which they were inserted in turn, some repeatedly."""
    place_count = _PLACES
    order: dict[K, int] = {}
    for key in puts:
        if (len(order) + 1) * 4 >= place_count * 3:  # also for a key that exists already
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
