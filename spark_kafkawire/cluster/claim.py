"""What a member of a group that shares partitions owns."""

from __future__ import annotations

from dataclasses import dataclass

from ..model import TopicPartition


@dataclass(frozen=True, slots=True)
class Claim:
    """A log that a member owns.

    ``number`` is another one for each time that it was claimed: in between, others may have read it.
    ``offset`` is where the group stood then, None where it has never read the log.
    """

    log: TopicPartition
    number: int
    offset: int | None
