"""Which log of the source goes to which partition of the target. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...errors import OptionError, quoted
from ...model import TopicPartition
from ..state.positions import name_order


@dataclass(frozen=True, slots=True)
class Route:
    """A log of the source and the partition that it alone is copied to."""

    source: TopicPartition
    target: TopicPartition


def parse_names(pairs: Sequence[str]) -> dict[str, str]:
    """The target's topic names, by the source's, from ``old=new`` strings. Raises ``OptionError``."""
    names: dict[str, str] = {}
    for pair in pairs:
        old, separator, new = (part.strip() for part in pair.partition("="))
        if not (old and separator and new):
            raise OptionError(f"argument --map: {quoted(pair)} is not OLD=NEW")
        if old in names:
            raise OptionError(f"argument --map: {quoted(old)} is there twice")
        names[old] = new
    return names


def routes_of(
    logs: Iterable[TopicPartition],
    names: Mapping[str, str],
    known: Mapping[TopicPartition, TopicPartition],
) -> tuple[Route, ...]:
    """A route for each log, sorted by topic, broker and partition.

    ``known`` are the targets of logs that an earlier run has begun. The others of a target topic
    get its next numbers, so that the logs of a topic that is copied whole are partitions 0, 1, 2, …
    Raises ``OptionError`` (fatal) for a log that was begun under another name, and for names of
    topics that are not copied.
    """
    logs = sorted(logs, key=name_order)
    if strangers := sorted(set(names) - {log.topic for log in logs}):
        raise OptionError(f"argument --map: {quoted(strangers[0])} is not among the topics to copy")
    next_numbers: dict[str, int] = {}
    for target in known.values():
        next_numbers[target.topic] = max(next_numbers.get(target.topic, 0), target.partition + 1)
    routes = []
    for log in logs:
        topic = names.get(log.topic, log.topic)
        target = known.get(log) or TopicPartition(topic, next_numbers.get(topic, 0))
        if target.topic != topic:
            raise OptionError(
                f"argument --map: {log} is copied to {target} already, by the state directory; it cannot "
                f"go to {quoted(topic)} now: leave the map as it was, or begin with an empty state directory"
            )
        if log not in known:
            next_numbers[topic] = target.partition + 1
        routes.append(Route(log, target))
    return tuple(routes)


def partition_counts(routes: Iterable[Route]) -> dict[str, int]:
    """How many partitions each topic of the target must have at least."""
    counts: dict[str, int] = {}
    for route in routes:
        counts[route.target.topic] = max(counts.get(route.target.topic, 0), route.target.partition + 1)
    return counts
