"""Choice of the replica to read for each range of a partition, from several brokers' directories. Pure.

    replica      log                         high watermark   leader epochs
    /b1          [0 ............ 120)        100              3 from 0
    /b2               [40 .... 105)          90               3 from 0, 4 from 95
    read         [0, 40) of /b1, [40, 90) of /b2

The longest log is not the right one: its last records may never have been committed, or an election may have
replaced them. So two facts decide, which brokers write down:

* The leader epochs. The log with the latest epoch is the authority. Another log agrees with it up to the
  offset where their epochs part, as a follower finds the offset to which it truncates its log (KIP-101).
* The high watermark of ``replication-offset-checkpoint``. Records below it are committed.

A read of several replicas ends at the highest high watermark of a log, where it agrees with the authority. A
single replica is read to its end: no other one contradicts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .side_files import EpochStart, epoch_end


@dataclass(frozen=True, slots=True)
class Replica:
    """One broker's log of a partition: ``[start, end)`` on its disks. ``high_watermark`` is None if no
    checkpoint has it, ``epochs`` are empty before Kafka 0.11. ``log_start`` is the checkpointed start, 0
    without one."""

    start: int
    end: int
    high_watermark: int | None = None
    epochs: tuple[EpochStart, ...] = ()
    log_start: int = 0

    @property
    def last_epoch(self) -> int:
        """The latest leader epoch, -1 without any."""
        return self.epochs[-1].epoch if self.epochs else -1


@dataclass(frozen=True, slots=True)
class Piece:
    """Offsets ``[start, stop)`` that are read from a replica, given by its place in the list."""

    start: int
    stop: int
    replica: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The ranges to read, ascending and without a gap. ``start`` and ``end`` are the bounds of the partition.

    ``authority`` is the replica with the latest epoch. ``agreed`` are the offsets up to which each replica
    agrees with it."""

    pieces: tuple[Piece, ...]
    start: int
    end: int
    authority: int
    agreed: tuple[int, ...]


def choose(replicas: Sequence[Replica]) -> Choice:
    """Choose the replica of each range. There is at least one replica."""
    authority = max(range(len(replicas)), key=lambda index: _rank(replicas[index]))
    agreed = tuple(
        item.end if index == authority else _find_agreement(item, replicas[authority])
        for index, item in enumerate(replicas)
    )
    end = replicas[0].end if len(replicas) == 1 else _find_committed_end(replicas, authority, agreed)
    log_start = max(item.log_start for item in replicas)
    start = min(max(log_start, min(item.start for item in replicas)), end)
    pieces: list[Piece] = []
    stop = end
    while stop > start:
        held = [index for index, item in enumerate(replicas) if item.start < stop <= agreed[index]]
        if not held:
            break
        best = authority if authority in held else min(held, key=lambda index: replicas[index].start)
        pieces.append(Piece(max(start, replicas[best].start), stop, best))
        stop = pieces[-1].start
    return Choice(tuple(reversed(pieces)), stop, end, authority, agreed)


def contradiction(replicas: Sequence[Replica]) -> tuple[int, int, str] | None:
    """The places of two replicas whose leader epochs contradict each other, and the reason; None without any.

    An epoch has one leader, so it begins at one offset. Brokers raise the first epoch's offset with the start
    of the log, so it proves nothing.
    """
    for first in range(len(replicas)):
        for second in range(first + 1, len(replicas)):
            a, b = replicas[first].epochs[1:], replicas[second].epochs[1:]
            starts = {item.epoch: item.start_offset for item in a}
            for item in b:
                if starts.get(item.epoch, item.start_offset) != item.start_offset:
                    reason = f"leader epoch {item.epoch} begins at offset {starts[item.epoch]} in the first"
                    return first, second, f"{reason} and at {item.start_offset} in the second"
    return None


def _rank(replica: Replica) -> tuple[int, int, int]:
    high_watermark = -1 if replica.high_watermark is None else replica.high_watermark
    return replica.last_epoch, high_watermark, replica.end


def _find_agreement(replica: Replica, authority: Replica) -> int:
    """The offset up to which a log agrees with that of the latest epoch."""
    end = min(replica.end, authority.end)
    if not replica.epochs or not authority.epochs:
        # Before leader epochs only what is committed is the same everywhere.
        return end if replica.high_watermark is None else min(replica.end, replica.high_watermark)
    if replica.last_epoch == authority.last_epoch:
        return end
    epoch, stop = epoch_end(authority.epochs, replica.last_epoch, authority.end)
    if epoch < 0:
        return min(replica.end, authority.epochs[0].start_offset)
    _, own_stop = epoch_end(replica.epochs, epoch, replica.end)
    if own_stop < 0:
        return min(replica.end, replica.epochs[0].start_offset)
    return min(stop, own_stop, replica.end)


def _find_committed_end(replicas: Sequence[Replica], authority: int, agreed: Sequence[int]) -> int:
    """The end of the records that are committed."""
    known = [
        min(item.high_watermark, agreed[index])
        for index, item in enumerate(replicas)
        if item.high_watermark is not None
    ]
    if known:
        return max(known)
    last = replicas[authority].last_epoch
    return min(agreed[index] for index, item in enumerate(replicas) if item.last_epoch == last)
