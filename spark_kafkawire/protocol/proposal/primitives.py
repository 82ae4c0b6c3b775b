"""The wire type that only the New Wire Format Proposal of Kafka 0.7 has: an array of topics.

The number of partitions of all topics together is limited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from spark_kafkawire.errors import ProtocolError, counted

from ..primitives import CHECK_PEER, INT16, Array, Type

#: Message sets, or partitions, in one request: a ProduceResponse has one list of them, counted by an int16.
SET_COUNT_MAX: Final = 32_767


class TopicSets(Protocol):
    """A topic with partitions."""

    @property
    def set_count(self) -> int:
        """Number of partitions of this topic."""


T = TypeVar("T", bound=TopicSets)


@dataclass(frozen=True, slots=True)
class TopicArray(Array[T]):
    """``count int16 | topics``. Nested counts could claim a billion partitions, and each becomes an object:
    more than ``SET_COUNT_MAX`` in total are refused."""

    element: Type[T]
    count: Type[int] = INT16

    def read(self, buf: memoryview, pos: int) -> tuple[tuple[T, ...], int]:
        count, pos = self.count.read(buf, pos)
        if count < 0:
            raise ProtocolError(f"array of {counted(count, 'topic')} at {pos}; {CHECK_PEER}")
        topics, left = [], SET_COUNT_MAX
        for _ in range(count):
            topic, pos = self.element.read(buf, pos)
            left -= topic.set_count
            if left < 0:
                raise ProtocolError(
                    f"more than {SET_COUNT_MAX} partitions before {pos}: at most {SET_COUNT_MAX} are read; "
                    f"{CHECK_PEER}"
                )
            topics.append(topic)
        return tuple(topics), pos
