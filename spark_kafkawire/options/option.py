"""What is told of an option, and the kinds of options that there are: the tables have a row for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..model import Generation

#: Which brokers an option is for, as the tables have it.
_BROKERS: Final = {None: "all", Generation.V07: "0.7", Generation.MODERN: "0.8 on"}


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name as documented, its default as documented, and who takes it.

    ``generation`` is the only one to which the option means something; None where it does to both.
    ``stream`` tells whether streams take it, too.
    """

    name: str
    default: str | None
    meaning: str
    read: bool = True
    write: bool = True
    generation: Generation | None = None
    stream: bool = True

    @property
    def brokers(self) -> str:
        """Which brokers it is for, as the tables have it; given for others it is an error."""
        return _BROKERS[self.generation]


def read(name: str, default: str | None, meaning: str, generation: Generation | None = None) -> Option:
    """One of reads, batches and streams."""
    return Option(name, default, meaning, write=False, generation=generation)


def batch_read(name: str, default: str | None, meaning: str) -> Option:
    """One of batch reads."""
    return Option(name, default, meaning, write=False, stream=False)


def write(name: str, default: str | None, meaning: str, generation: Generation | None = None) -> Option:
    """One of writes, batches and streams."""
    return Option(name, default, meaning, read=False, generation=generation)


def modern(name: str, default: str | None, meaning: str) -> Option:
    """One of reads and writes from Kafka 0.8 on."""
    return Option(name, default, meaning, generation=Generation.MODERN)


def of_07(name: str, default: str | None, meaning: str) -> Option:
    """One of reads and writes of Kafka 0.7."""
    return Option(name, default, meaning, generation=Generation.V07)
