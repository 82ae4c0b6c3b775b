"""A partition that a member of a consumer group of Kafka 0.7 owns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_kafkawire.errors import quote
from spark_kafkawire.model import TopicPartition


@dataclass(frozen=True, slots=True)
class OwnedPartition:
    """A partition that a member owns.

    ``number`` differs each time that the member claims the partition, because other members may have read it
    in between. ``offset`` is the committed offset at that time, None if the group has never committed one.
    """

    partition: TopicPartition
    number: int
    offset: int | None


def abandoned_text(group: str, abandoned: Sequence[str]) -> str:
    """A message about nodes of a group that keep partitions from every reader, a line in ``abandoned`` for
    each node."""
    more = f" (the first of {len(abandoned)} such nodes)" if len(abandoned) > 1 else ""
    return f"group {quote(group)}: {abandoned[0]}{more}; remove such a node if its consumer is gone for good"
