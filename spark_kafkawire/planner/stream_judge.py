"""Decisions about data loss in a stream (``failOnDataLoss``), for both generations.

Repeated requests confirm a loss before the stream fails or warns.

A loss that every later start of the query finds again raises an error in ``settled``. Any other loss becomes
part of the end of the next batch, which Spark writes to the checkpoint before it requests the tasks of the
batch. Then ``judge`` raises, at each start, until the user decides.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ..errors import LOG, Action, DataLossError, KafkaWireError, counted
from ..model import Leader, TopicPartition
from ..net.retry import Attempts
from ..options import ReadOptions
from .stream import Bounds
from .stream_leaders import leaders_of
from .stream_losses import Losses, losses, recreated_topics
from .stream_offsets import Offsets, Position
from .stream_partitions import StreamPartitions, topic_ids_of

_NOWHERE: Final = Position({})
#: Seconds between two warnings about partitions on hold.
_WARN_AGAIN_S: Final = 60.0
_PLACING: Final = "kafkawire checkpoints CHECKPOINT --place sets another one (docs/data-loss.md)"


class _Doubt(KafkaWireError):
    """Something that existed seems to be gone: it is requested again before that counts as a loss."""

    action = Action.REFRESH


@dataclass(frozen=True, slots=True)
class Settled:
    """Answers of the cluster, after repeated requests for topics and records that seem to be gone.

    ``bounds`` are those of the partitions that the query reads, ``held`` its positions in partitions that it
    does not read now, ``topic_ids`` the ids of all existing topics, and ``lost`` the confirmed losses.
    """

    bounds: Bounds
    topic_ids: Mapping[str, uuid.UUID]
    lost: Losses
    held: Offsets


class LossJudge:
    """Decisions for one run of one query. ``clock`` and ``sleep`` count seconds."""

    def __init__(
        self,
        options: ReadOptions,
        partitions: StreamPartitions,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._partitions, self._clock, self._sleep = partitions, clock, sleep
        self._retry = options.planning_retry.impatient
        self._is_strict = options.fetch.fail_on_data_loss
        self._warned: set[str] = set()
        self._held: frozenset[TopicPartition] = frozenset()
        self._held_warned_s = -math.inf

    def settled(self, start: Position, due: Position | None) -> Settled:
        """Answers of the cluster about the partitions of the query. ``due`` is the end of AvailableNow.

        If ``failOnDataLoss`` is false and a loss is not proven, the partition is put on hold: the query keeps
        its position, and continues there once the partition is back.
        """
        attempts = Attempts(self._retry, clock=self._clock, sleep=self._sleep)
        while True:
            bounds = self._partitions.bounds(start.offsets)
            carried = self._partitions.carried(start.offsets, bounds)
            now = Position({**carried, **latest_of(bounds)}, self._partitions.topic_ids(bounds))
            cut_off, all_lost = losses(due or _NOWHERE, now), losses(start, now)
            held = frozenset() if self._is_strict else frozenset(all_lost.unproven)
            lost = all_lost.without(held)
            is_settled = not (cut_off or lost) and held <= self._held
            if not is_settled:
                self._partitions.forget()
                if not attempts.last(_Doubt(str(cut_off or all_lost))):
                    continue
                self._check(start, cut_off, lost)
            self._hold(held, all_lost)
            bounds = {tp: found for tp, found in bounds.items() if tp not in held}
            places = {**carried, **{tp: start.offsets[tp] for tp in held}}
            return Settled(bounds, now.topic_ids, lost, places)

    def _hold(self, held: frozenset[TopicPartition], lost: Losses) -> None:
        """Warn about partitions on hold, once a minute, and about those that are no longer on hold."""
        if back := sorted(self._held - held):
            LOG.warning(
                "%s no longer on hold, first %s: the query continues from its position there",
                counted(len(back), "partition"),
                back[0],
            )
        if held and (held - self._held or self._clock() - self._held_warned_s >= _WARN_AGAIN_S):
            self._held_warned_s = self._clock()
            LOG.warning(
                "%s, or a broker is behind: nothing proves which. The query keeps its position and reads "
                "nothing there until the partition reaches beyond it again, or %s",
                lost,
                _PLACING,
            )
        self._held = held

    def _check(self, start: Position, cut_off: Losses, lost: Losses) -> None:
        """Raise, or warn about, losses that the next start of the query finds again."""
        if cut_off:  # it must exist until it is read
            raise DataLossError(f"{cut_off}; the trigger availableNow was to read it: start the query again")
        # A partition that has lost its end may have grown until the next start.
        is_forgotten = bool(lost.shorter) and self._is_strict
        if lost and lost.topics <= start.topic_ids.keys() and not is_forgotten:
            self.judge(lost)

    def judge(self, lost: Losses) -> None:
        """Fail for a loss, or warn if ``failOnDataLoss`` is false and the loss is proven."""
        if lost.unproven:
            raise DataLossError(
                f"{lost}, or a broker is behind: nothing proves which. The query does not continue from its "
                f"position until {_PLACING}"
            )
        self.lose(str(lost))

    def lose(self, loss: str) -> None:
        """Fail, or warn once and continue."""
        if self._is_strict:
            raise DataLossError(f"{loss}; to continue with what is left, set failOnDataLoss=false")
        if loss not in self._warned:
            self._warned.add(loss)
            LOG.warning("%s; continuing because failOnDataLoss=false", loss)

    def leaders(self, starts: Position) -> Mapping[TopicPartition, Leader]:
        """Leaders of the partitions in ``starts``. A partition that no longer has a leader is a loss, and so
        is a partition of a recreated topic."""
        attempts = Attempts(self._retry, clock=self._clock, sleep=self._sleep)
        while True:
            found = self._partitions.ask(lambda cluster: leaders_of(cluster, list(starts.offsets)))
            recreated = recreated_topics(starts, Position({}, topic_ids_of(found)))
            if not recreated:
                break
            if attempts.last(_Doubt(str(Losses(recreated)))):
                break
            self._partitions.forget_leaders(found)
        topics = {topic for topic, _, _ in recreated}
        gone = tuple((tp, offset) for tp, offset in starts.offsets.items() if tp not in found)
        if recreated or gone:
            self.lose(str(Losses(recreated, gone)))
        return {tp: leader for tp, leader in found.items() if tp.topic not in topics}


def latest_of(bounds: Bounds) -> dict[TopicPartition, int]:
    """End offsets of the partitions."""
    return {tp: found.latest for tp, found in bounds.items()}
