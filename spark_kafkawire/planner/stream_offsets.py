"""Positions of a streaming query, for both generations: the JSON of its checkpoint, the offsets of its
batches, and the losses between two positions. Pure.

    {"topic": {"0": 123}}          0.8 and later
    {"topic": {"0-1": 123}}        0.7: broker-partition, and the byte
    {"topic": {"0": 123}, "topic id kept by kafkawire: topic 4W...dQ": {}}      from 2.8 on

Spark's own Kafka connector writes the same format in the same order, so both can use a checkpoint. Spark
takes a text that differs from the last one for new data, so the order must depend on the names only.
Source: Spark's JsonUtils.partitionOffsets, which fills Scala's ``mutable.HashMap``.

    start ── next_offsets(start, bounds, limits) ──► end          (into the checkpoint, by Spark)
    start, end ── ranges_between(start, end, earliest) ──► ranges of the batch, also when it runs again

``start`` is the end of the previous batch. A partition that is not in it is new, and begins at its
earliest offset. A partition at ``UNPINNED`` begins where this batch ends, so that the checkpoint
contains the start of the query before any row is read. ``earliest`` is only requested for new
partitions. Source of the limits: Spark's KafkaMicroBatchStream.

===========================================  ==============================================================
observation                                  meaning
===========================================  ==============================================================
another topic id                             the topic was deleted and recreated: proven
the topic does not exist                     it was deleted: proven
the end of a partition is before the         the topic was recreated, the partition has lost its end, or the
position                                     broker is behind: not proven
a partition does not exist, but its topic    the topic was recreated, or the broker is behind: not proven
does
===========================================  ==============================================================

A query that continues at an outdated end reads rows again, so no query does so without a proof. A
partition of 0.7 is on one broker only, so the response of that broker is a proof.
"""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from ..errors import OptionError, counted, plural, printable, quote
from ..model import OffsetRange, PartitionBounds, TopicPartition, id_text
from ..options import StreamLimits
from ..options.selection import PARTITION_SYNTAX, PartitionSyntax
from .ranges import Bounds, limit_ranges

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
    result = {
        topic: {tp.name: by_topic[topic][tp] for tp in _partitions(by_topic[topic])}
        for topic in _order_as_table(puts, _text_hash)
    }
    result |= {f"{ID_MARK}{topic} {id_text(id_)}": {} for topic, id_ in sorted((topic_ids or {}).items())}
    pinned = [offset == UNPINNED for offset in (start or {}).values()]
    return result | ({PIN_MARK if all(pinned) else PART_MARK: {}} if any(pinned) else {})


def ids_from_json(written: Mapping[str, Any]) -> dict[str, uuid.UUID]:
    """Topic ids in a checkpoint; it has none if Spark's own connector wrote it, or with brokers before 2.8.
    Raises ``OptionError`` (fatal) for a damaged id."""
    return dict(_id_of(key) for key in written if key.startswith(ID_MARK))


def _id_of(key: str) -> tuple[str, uuid.UUID]:
    topic, _, text = key.removeprefix(ID_MARK).partition(" ")
    try:
        result = uuid.UUID(bytes=base64.b64decode(f"{text}==", altchars=b"-_", validate=True))
    except (ValueError, binascii.Error):
        raise OptionError(
            f"checkpointLocation: {quote(key)} holds no topic id, so the checkpoint is damaged: restore a "
            "copy of it, or give the query another one"
        ) from None
    return topic, result


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
                raise _describe_other_partitions(written, topic, name, syntax)
            is_offset = isinstance(offset, int) and not isinstance(offset, bool) and offset.bit_length() < 64
            if not is_offset or offset < (UNPINNED if unpinned else 0):
                raise _unreadable(written, syntax)
            offsets[partition] = offset
    return offsets


def _unreadable(written: Any, syntax: PartitionSyntax) -> OptionError:
    return OptionError(
        f"checkpointLocation: {quote(json.dumps(written))} does not hold offsets of the form "
        f"{syntax.example(123)}: another source wrote this checkpoint; set a new checkpointLocation"
    )


def _describe_other_partitions(written: Any, topic: str, name: str, syntax: PartitionSyntax) -> OptionError:
    if all(other.keyed(topic, name) is None for other in PARTITION_SYNTAX.values()):
        return _unreadable(written, syntax)
    return OptionError(
        f"checkpointLocation: the offsets of {printable(topic)} are of partition {quote(name)}, but the "
        f"brokers of these options have partitions like '{syntax.key_example}': the checkpoint belongs to "
        "a query of another kind of Kafka (0.7, or 0.8 and later); give this query a checkpoint of its own"
    )


def _partitions(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Partitions of one topic in their order; those of 0.7, which Spark's connector lacks, by broker."""
    partitions = list(partitions)
    if any(tp.broker is not None for tp in partitions):
        return sorted(partitions, key=lambda tp: (tp.broker or 0, tp.partition))
    by_number = {tp.partition: tp for tp in partitions}
    return [by_number[number] for number in _order_as_table(by_number, lambda number: number)]


def _order_as_table(puts: Iterable[K], hash_of: Callable[[K], int]) -> list[K]:
    """Keys in the order of a hash table into which they were inserted in turn, some repeatedly."""
    place_count = _PLACES
    order: dict[K, int] = {}
    for key in puts:
        if (len(order) + 1) * 4 >= place_count * 3:  # also for a key that exists already
            place_count *= 2
        order.setdefault(key, len(order))
    spread = {key: hash_of(key) ^ (hash_of(key) >> 16) for key in order}
    return sorted(
        # Java compares the hashes as signed numbers.
        order,
        key=lambda key: (spread[key] & (place_count - 1), spread[key] ^ (1 << 31), order[key]),
    )


def _text_hash(text: str) -> int:
    """Java's ``String.hashCode`` as an unsigned number."""
    value = 0
    utf16 = text.encode("utf-16-be")
    for at in range(0, len(utf16), 2):
        value = (31 * value + (utf16[at] << 8 | utf16[at + 1])) & 0xFFFFFFFF
    return value


def next_offsets(start: Offsets, bounds: Bounds, size_max: int | None = None) -> dict[TopicPartition, int]:
    """End offsets of the next batch: the latest offsets, or as far as ``size_max`` allows.

    A batch that pins a start adds no new partitions: the batch after it does.
    """
    if UNPINNED in start.values():
        bounds = {tp: result for tp, result in bounds.items() if tp in start}
    ends = {tp: result.latest for tp, result in bounds.items()}
    if size_max is not None:
        ranges = ranges_left(start, bounds)
        ends.update(
            (item.topic_partition, item.stop_offset) for item in limit_ranges(ranges, size_max, bounds)
        )
    return ends


def ranges_left(start: Offsets, bounds: Bounds) -> list[OffsetRange]:
    """Ranges from ``start`` to the latest offsets, without empty ones."""
    return [
        OffsetRange(tp, begin, result.latest)
        for tp, result in bounds.items()
        if (begin := _begin(start, result)) < result.latest
    ]


def must_wait(start: Offsets, bounds: Bounds, limits: StreamLimits, waited_s: float) -> bool:
    """True if a batch would be too small now. ``waited_s`` is the time since the last batch, seconds."""
    if limits.size_min is None or waited_s >= limits.delay_max_s or UNPINNED in start.values():
        return False
    return sum(max(result.latest - _begin(start, result), 0) for result in bounds.values()) < limits.size_min


def _begin(start: Offsets, bounds: PartitionBounds) -> int:
    offset = start.get(bounds.topic_partition, bounds.earliest)
    return bounds.latest if offset == UNPINNED else offset


def limit_bounds(bounds: Bounds, ends: Offsets) -> dict[TopicPartition, PartitionBounds]:
    """Bounds limited to earlier ``ends``, without partitions that ``ends`` does not have."""
    return {
        tp: replace(result, latest=min(result.latest, ends[tp]))
        for tp, result in bounds.items()
        if tp in ends
    }


def offsets_behind(end: Offsets, latest: Offsets) -> dict[str, float]:
    """Metrics of the lag of a query, with the names of Spark's own source; empty without partitions. A
    partition that the query does not have yet counts from 0, as in that source.

    Source: Spark's KafkaMicroBatchStream.metrics.
    """
    behind = [offset - end.get(tp, 0) for tp, offset in latest.items()]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": min(behind),
        "maxOffsetsBehindLatest": max(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }


def ranges_between(
    start: Offsets, end: Offsets, earliest: Offsets
) -> tuple[tuple[OffsetRange, ...], tuple[OffsetRange, ...]]:
    """Ranges that a batch reads, and ranges of new partitions that were deleted before.

    ``earliest`` are the first offsets of the new partitions. Empty ranges are left out.
    """
    ranges, gone = [], []
    for partition, stop in end.items():
        begin = start.get(partition, 0)
        if begin == UNPINNED:
            continue
        if partition not in start and (first := min(earliest[partition], stop)) > 0:
            gone.append(OffsetRange(partition, 0, first))
            begin = first
        if begin < stop:
            ranges.append(OffsetRange(partition, begin, stop))
    return tuple(ranges), tuple(gone)


#: Most partitions in one error message.
_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Losses:
    """Losses of a query.

    They are ``recreated`` topics with their old and new ids, ``vanished`` partitions with the position of the
    query, ``shorter`` partitions with that position and their end before it, and ``deleted`` topics with the
    ids that they had. ``unproven`` are vanished and shorter partitions that may still be unchanged.
    """

    recreated: tuple[tuple[str, uuid.UUID, uuid.UUID], ...] = ()
    vanished: tuple[tuple[TopicPartition, int], ...] = ()
    shorter: tuple[tuple[TopicPartition, int, int], ...] = ()
    unproven: tuple[TopicPartition, ...] = ()
    deleted: tuple[tuple[str, uuid.UUID], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.recreated or self.vanished or self.shorter)

    @property
    def recreated_topics(self) -> frozenset[str]:
        """Topics that have a different id now."""
        return frozenset(topic for topic, _, _ in self.recreated)

    @property
    def topics(self) -> frozenset[str]:
        """Topics with any loss."""
        partitions = [*(tp for tp, _ in self.vanished), *(tp for tp, _, _ in self.shorter)]
        return self.recreated_topics | {tp.topic for tp in partitions}

    def without(self, partitions: Collection[TopicPartition]) -> Losses:
        """The losses without those of some partitions."""
        return Losses(
            self.recreated,
            tuple(item for item in self.vanished if item[0] not in partitions),
            tuple(item for item in self.shorter if item[0] not in partitions),
            tuple(tp for tp in self.unproven if tp not in partitions),
            self.deleted,
        )

    def __str__(self) -> str:
        texts = [
            f"the topic {printable(topic)} was deleted and recreated: its id was {id_text(old)}, and is "
            f"{id_text(new)}"
            for topic, old, new in self.recreated[:_NAMED_MAX]
        ]
        texts += _more(len(self.recreated), "topic")
        if self.vanished:
            places = ", ".join(f"{tp} at offset {offset}" for tp, offset in self.vanished[:_NAMED_MAX])
            more = " and ".join(["", *_more(len(self.vanished), "partition")])
            texts.append(f"{places}{more} no longer {plural(len(self.vanished), 'exists', 'exist')}")
        texts += [
            f"the end of {tp} was changed from {old} to {new}" for tp, old, new in self.shorter[:_NAMED_MAX]
        ]
        texts += _more(len(self.shorter), "partition")
        texts += [
            f"the topic {printable(topic)} with the id {id_text(id_)} was deleted"
            for topic, id_ in self.deleted[:_NAMED_MAX]
        ]
        why = ": a topic was deleted or recreated, or a partition lost its end"
        is_explained = {tp.topic for tp, _ in self.vanished} <= {topic for topic, _ in self.deleted}
        return "; ".join(texts) + (why if self.shorter or not is_explained else "")


def _more(count: int, noun: str) -> list[str]:
    more = count - _NAMED_MAX
    return [counted(more, f"more {noun}")] if more > 0 else []


def losses(start: Position, now: Position) -> Losses:
    """Losses between the position of a query and ``now``: the latest offsets, or the end of a batch."""
    recreated = find_recreated_topics(start, now)
    kept = start.without([topic for topic, _, _ in recreated]).offsets
    there = {tp.topic for tp in now.offsets}
    vanished = tuple((tp, kept[tp]) for tp in sorted(kept) if tp not in now.offsets and kept[tp] != UNPINNED)
    shorter = tuple(
        (tp, kept[tp], now.offsets[tp])
        for tp in sorted(kept)
        if tp in now.offsets and now.offsets[tp] < kept[tp]
    )
    gone = sorted({tp.topic for tp, _ in vanished} & (start.topic_ids.keys() - there))
    deleted = tuple((topic, start.topic_ids[topic]) for topic in gone)
    unproven = [tp for tp, _ in vanished if tp.broker is None and tp.topic in there]
    unproven += [tp for tp, _, _ in shorter if tp.broker is None]
    return Losses(recreated, vanished, shorter, tuple(unproven), deleted)


def find_recreated_topics(start: Position, now: Position) -> tuple[tuple[str, uuid.UUID, uuid.UUID], ...]:
    """Topics that have a different id now, with the old and the new id."""
    return tuple(
        (topic, id_, now.topic_ids[topic])
        for topic, id_ in sorted(start.topic_ids.items())
        if now.topic_ids.get(topic, id_) != id_
    )
