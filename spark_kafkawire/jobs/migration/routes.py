"""Routes from the partitions of the source to the partitions of the target. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spark_kafkawire.errors import OptionError, quoted
from spark_kafkawire.model import TopicPartition

from ..state.positions import name_order


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
            raise OptionError(f"argument --map: {quoted(pair)} is not OLD=NEW; correct it")
        if old in names:
            raise OptionError(f"argument --map: {quoted(old)} appears twice; remove one")
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
            f"argument --map: {quoted(strangers[0])} is not among the topics to copy; correct it, or select "
            "it"
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
                f"cannot go to {quoted(topic)} now: leave the map as it was, or begin with an empty state "
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
