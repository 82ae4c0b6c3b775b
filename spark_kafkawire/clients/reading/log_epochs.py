"""What planning tells a task of the epochs of its log. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

from ...model import TopicPartition
from ...options import PartitionerCheck


@dataclass(frozen=True, slots=True)
class LogEpochs:
    """Where the epochs of one log begin: ``first`` with the log itself, each later one at its boundary.

    ``family`` is the log whose Spark partition reads this one, too, after those of earlier epochs.

    ``counts`` are the topic's in all epochs, by which keys are checked as ``check`` says. Where
    ``is_late_a_fault``, a record that an earlier count has put there may come after what followed it.
    """

    family: TopicPartition
    first: int
    boundaries: tuple[int, ...]
    counts: tuple[int, ...]
    check: PartitionerCheck = PartitionerCheck.NONE
    is_late_a_fault: bool = False
