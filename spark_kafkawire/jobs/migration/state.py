"""Routes from the partitions of the source to those of the target, and the state of their copies
between runs.

    with StateDirectory(folder) as directory:
        state = directory.load()
        directory.save(state)

    migration-7.json   the state; the next one is migration-8.json, and then this one is removed
    lock               held while a run works here; says, from the first state on, that there must be one

A run that is killed at any moment leaves the old state or the new one, and the newest one counts. Of two
runs that no lock keeps apart one is first to make the next file, and the other one ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from spark_kafkawire.clients.writing.modern.batches import ProducerId
from spark_kafkawire.errors import OptionError, quote
from spark_kafkawire.model import TopicPartition

from ..files import LocalFiles
from ..state import JobState, Milestone, StateFormat, name_order, sole_run


@dataclass(frozen=True, slots=True)
class Route:
    """A partition of the source and the partition that it alone is copied to."""

    source: TopicPartition
    target: TopicPartition


def parse_names(pairs: Sequence[str]) -> dict[str, str]:
    """The target's topic names, by the source's, from ``old=new`` strings. Raises ``OptionError``."""
    names: dict[str, str] = {}
    for pair in pairs:
        old, separator, new = (part.strip() for part in pair.partition("="))
        if not (old and separator and new):
            raise OptionError(f"argument --map: {quote(pair)} is not OLD=NEW; correct it")
        if old in names:
            raise OptionError(f"argument --map: {quote(old)} appears twice; remove one")
        names[old] = new
    return names


def routes_of(
    partitions: Iterable[TopicPartition],
    names: Mapping[str, str],
    known: Mapping[TopicPartition, TopicPartition],
) -> tuple[Route, ...]:
    """A route for each partition, sorted by topic, broker and partition.

    ``known`` are the targets of partitions that an earlier run has begun. The others of a target topic
    get its next numbers, so that the partitions of a topic that is copied whole are partitions 0, 1, 2, …
    Raises ``OptionError`` (fatal) for a partition that was begun under another name, and for names of
    topics that are not copied.
    """
    partitions = sorted(partitions, key=name_order)
    if strangers := sorted(set(names) - {tp.topic for tp in partitions}):
        raise OptionError(
            f"argument --map: {quote(strangers[0])} is not among the topics to copy; correct it, or select it"
        )
    next_numbers: dict[str, int] = {}
    for target in known.values():
        next_numbers[target.topic] = max(next_numbers.get(target.topic, 0), target.partition + 1)
    routes = []
    for partition in partitions:
        topic = names.get(partition.topic, partition.topic)
        target = known.get(partition) or TopicPartition(topic, next_numbers.get(topic, 0))
        if target.topic != topic:
            raise OptionError(
                f"argument --map: {partition} is copied to {target} already, by the state directory; it "
                f"cannot go to {quote(topic)} now: leave the map as it was, or begin with an empty state "
                "directory"
            )
        if partition not in known:
            next_numbers[topic] = target.partition + 1
        routes.append(Route(partition, target))
    return tuple(routes)


def partition_counts(routes: Iterable[Route]) -> dict[str, int]:
    """The minimum number of partitions of each topic of the target."""
    counts: dict[str, int] = {}
    for route in routes:
        counts[route.target.topic] = max(counts.get(route.target.topic, 0), route.target.partition + 1)
    return counts


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in both logs: the messages before it are the same, ``message_count`` since the first run."""

    source_offset: int
    target_offset: int
    message_count: int = 0

    def is_after(self, mark: Mark) -> bool:
        """True if more is copied than before the other mark, also if that was no message."""
        return (self.message_count, self.source_offset) > (mark.message_count, mark.source_offset)

    def after(self, mark: Mark) -> Mark | None:
        """The place to continue from, for a partition with this other mark in the state; None if that is at
        least as new. Losses of the source since then may have moved it on."""
        if not self.is_after(mark):
            return None
        return replace(self, source_offset=max(self.source_offset, mark.source_offset))


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """Progress of one partition.

    ``producer`` is the identity of all appends, None where each piece is a transaction. ``topic_id`` is that
    of the target's topic, None where topics have none. The target may hold more messages after ``copied``
    while the partition ``is_open``.
    """

    source: TopicPartition
    target: TopicPartition
    topic_id: str | None
    producer: ProducerId | None
    copied: Mark
    verified: Mark
    is_open: bool = True

    def __post_init__(self) -> None:
        """Raises ``ValueError`` where the marks run backwards."""
        if self.verified.source_offset > self.copied.source_offset:
            raise ValueError(f"{self.source} was verified further than it was copied")
        if self.verified.target_offset > self.copied.target_offset:
            raise ValueError(f"{self.target} was verified further than it was copied")


@dataclass(frozen=True, slots=True)
class State:
    """All partitions that were begun, by source. ``source_headers`` and ``transactional_id`` apply to all of
    them; ``transactional_id`` begins the ids of their transactions, and is None without transactions."""

    source_headers: bool
    partitions: Mapping[TopicPartition, PartitionProgress] = field(default_factory=dict)
    transactional_id: str | None = None

    def __post_init__(self) -> None:
        """Raises ``ValueError`` if a partition has both a producer id and transactions, or neither."""
        for partition in self.partitions.values():
            if (partition.producer is None) is (self.transactional_id is None):
                raise ValueError(f"{partition.source} has both an identity and transactions, or none of them")


class StateDirectory(JobState):
    """The directory, locked against a second run while the block lasts."""

    form = StateFormat(
        layout="migration 2",
        name="the state of a migration",
        advice="put the file back as it was, of the last run; without it start again, with another directory "
        "and new topics in the target",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(LocalFiles(), str(folder))
        self._held = ExitStack()
        self._number = 0

    def __enter__(self) -> StateDirectory:
        """Raises ``FileError`` (fatal) where another run has it, or it cannot be written."""
        self._held.enter_context(sole_run(self._files, [self._folder]))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._held.close()

    def load(self) -> State | None:
        """The state of the run before, None before the first one."""
        if (state := self.newest()) is not None:
            self.reach(Milestone.BEGUN)
        return state

    def newest(self) -> State | None:
        """The same in a directory that may be missing, which stays as it is."""
        states = self._list_numbered(_NAME)
        if not states:
            self._check_never(Milestone.BEGUN, _name(1), " or a later one is missing")
            return None
        self._number, name = states[-1]
        return self._read(name, _from_json)

    def save(self, state: State) -> None:
        """Save a state after the one that was loaded or saved last; it is on disk when this returns.

        Raises ``FileError`` (fatal) if another run, which no lock kept out, saved a state first, for example
        on a file system that two machines share. The other run continues, and this one must send nothing
        more.
        """
        self._create(_name(self._number + 1), _to_json(state), Milestone.BEGUN)
        self._number += 1
        for number, name in self._list_numbered(_NAME):
            if number < self._number:
                self._files.remove(self._path(name))


def load_state(folder: Path) -> State | None:
    """The state in a directory, which may be missing. Raises as ``StateDirectory``."""
    return StateDirectory(folder).newest()


#: The names of states.
_NAME: Final = r"migration-([0-9]{1,18})\.json"


def _name(number: int) -> str:
    return f"migration-{number}.json"


def _to_json(state: State) -> dict[str, Any]:
    return {
        "source_headers": state.source_headers,
        "transactional_id": state.transactional_id,
        "logs": [
            {
                "source": [partition.source.topic, partition.source.broker, partition.source.partition],
                "target": [partition.target.topic, partition.target.partition],
                "topic_id": partition.topic_id,
                "producer": [partition.producer.id, partition.producer.epoch] if partition.producer else None,
                "copied": [*astuple(partition.copied)],
                "verified": [*astuple(partition.verified)],
                "open": partition.is_open,
            }
            for partition in state.partitions.values()
        ],
    }


def _from_json(content: dict[str, Any]) -> State:
    partitions = [
        PartitionProgress(
            source=TopicPartition(item["source"][0], item["source"][2], item["source"][1]),
            target=TopicPartition(*item["target"]),
            topic_id=item["topic_id"],
            producer=ProducerId(*item["producer"]) if item["producer"] else None,
            copied=Mark(*item["copied"]),
            verified=Mark(*item["verified"]),
            is_open=item["open"],
        )
        for item in content["logs"]
    ]
    # States of versions without transactions have no transactional id.
    name = content.get("transactional_id")
    return State(content["source_headers"], {partition.source: partition for partition in partitions}, name)
