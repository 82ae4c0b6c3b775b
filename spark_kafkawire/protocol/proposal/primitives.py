"""The wire's type that only the proposal has: topics, whose partitions are bounded all together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from ...errors import ProtocolError
from ..primitives import INT16, Array, Type

#: Message sets, or partitions, in one request: a ProduceResponse has one list of them, counted by an int16.
SET_COUNT_MAX: Final = 32_767


class Topic(Protocol):
    """A topic with partitions."""

    @property
    def set_count(self) -> int:
        """How many partitions it has."""


T = TypeVar("T", bound=Topic)


@dataclass(frozen=True, slots=True)
class TopicArray(Array[T]):
    """``count int16 | topics``. Counts in counts could tell of a thousand million partitions, each of which
    becomes an object: more than ``SET_COUNT_MAX`` are refused."""

    element: Type[T]
    count: Type[int] = INT16

    def read(self, buf: memoryview, pos: int) -> tuple[tuple[T, ...], int]:
        count, pos = self.count.read(buf, pos)
        if count < 0:
            raise ProtocolError(f"array of {count} topics at {pos}")
        topics, left = [], SET_COUNT_MAX
        for _ in range(count):
            topic, pos = self.element.read(buf, pos)
            left -= topic.set_count
            if left < 0:
                raise ProtocolError(
                    f"more than {SET_COUNT_MAX} partitions before {pos}: so many are not read"
                )
            topics.append(topic)
        return tuple(topics), pos
