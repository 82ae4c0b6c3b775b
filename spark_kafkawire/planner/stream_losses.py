"""Data losses between two positions of a streaming query, for both generations, and their proof. Pure.

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

A query that continues at an outdated end reads rows again, so no query does so without a proof. A partition
of 0.7 is on one broker only, so the response of that broker is a proof.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from ..errors import counted, plural, printable
from ..model import TopicPartition
from .stream_offsets import UNPINNED, Position, id_text

#: Most partitions in one error message.
_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Losses:
    """Losses of a query.

    They are ``recreated`` topics with their old and new ids, ``vanished`` partitions with the position of the
    query, and ``shorter`` partitions with that position and their end before it. ``unproven`` are vanished
    and shorter partitions that may still be unchanged.
    """

    recreated: tuple[tuple[str, uuid.UUID, uuid.UUID], ...] = ()
    vanished: tuple[tuple[TopicPartition, int], ...] = ()
    shorter: tuple[tuple[TopicPartition, int, int], ...] = ()
    unproven: tuple[TopicPartition, ...] = ()

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
            tuple(each for each in self.vanished if each[0] not in partitions),
            tuple(each for each in self.shorter if each[0] not in partitions),
            tuple(tp for tp in self.unproven if tp not in partitions),
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
        why = ": a topic was deleted or recreated, or a partition lost its end"
        return "; ".join(texts) + (why if self.vanished or self.shorter else "")


def _more(count: int, noun: str) -> list[str]:
    more = count - _NAMED_MAX
    return [counted(more, f"more {noun}")] if more > 0 else []


def losses(start: Position, now: Position) -> Losses:
    """Losses between the position of a query and ``now``: the latest offsets, or the end of a batch."""
    recreated = recreated_topics(start, now)
    kept = start.without([topic for topic, _, _ in recreated]).offsets
    there = {tp.topic for tp in now.offsets}
    vanished = tuple((tp, kept[tp]) for tp in sorted(kept) if tp not in now.offsets and kept[tp] != UNPINNED)
    shorter = tuple(
        (tp, kept[tp], now.offsets[tp])
        for tp in sorted(kept)
        if tp in now.offsets and now.offsets[tp] < kept[tp]
    )
    return Losses(recreated, vanished, shorter, tuple(_unproven(vanished, shorter, there)))


def recreated_topics(start: Position, now: Position) -> tuple[tuple[str, uuid.UUID, uuid.UUID], ...]:
    """Topics that have a different id now, with the old and the new id."""
    return tuple(
        (topic, id_, now.topic_ids[topic])
        for topic, id_ in sorted(start.topic_ids.items())
        if now.topic_ids.get(topic, id_) != id_
    )


def _unproven(
    vanished: Iterable[tuple[TopicPartition, int]],
    shorter: Iterable[tuple[TopicPartition, int, int]],
    there: Iterable[str],
) -> Iterable[TopicPartition]:
    yield from (tp for tp, _ in vanished if tp.broker is None and tp.topic in there)
    yield from (tp for tp, _, _ in shorter if tp.broker is None)
