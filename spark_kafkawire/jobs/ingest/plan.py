"""What one run of ``ingest`` reads: decided once, recorded as JSON, and read again exactly so. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from ...errors import DataLossError
from ...model import LogBounds, OffsetRange, TopicPartition
from ...planner import shares
from ..state.positions import Positions, by_log, by_topic
from ..state.sealed import StateFormat

_FORMAT: Final = StateFormat(
    layout="ingest 2",
    name="a plan of ingest",
    advice="where the output has this batch, its file _plan is a copy to put there; where it has not, and "
    "the file is a .planned.json, remove it, and the batch is planned anew; else give another --output",
    # Plans of before were recorded without a seal.
    unsealed_keys=frozenset(("id", "batch", "ranges", "positions", "schema", "losses", "topic_ids", "gone")),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """One batch: its number, what it reads, and where each log that was ever read stands after it.

    ``schema`` is that of the values' JSON, where it is decoded: what is read again must look the same.
    ``losses`` are lines about what was gone when it was planned, for the run that finishes it.
    ``topic_ids`` tell a topic from another one of its name, where topics have ids. ``id`` is the plan's
    own, which tells it from what another run plans. ``gone`` are logs whose brokers the user has given up:
    that was told, and where one comes back it is read on from its position.
    """

    batch: int
    ranges: tuple[OffsetRange, ...]
    positions: Positions
    schema: str | None = None
    losses: tuple[str, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None
    gone: frozenset[TopicPartition] = frozenset()

    @property
    def size(self) -> int:
        """Offsets in all ranges: bytes in 0.7, records later."""
        return sum(each.size for each in self.ranges)

    def made_anew(self, topic_ids: Mapping[str, str]) -> set[str]:
        """The topics that are other ones now, by the ids that they have now."""
        return {topic for topic, now in topic_ids.items() if self.topic_ids.get(topic, now) != now}

    def to_json(self) -> str:
        """As it is recorded."""
        ranges: dict[str, dict[str, list[int]]] = {}
        for each in self.ranges:
            ranges.setdefault(each.log.topic, {})[each.log.name] = [each.start_offset, each.stop_offset]
        content = {"batch": self.batch, "ranges": ranges, "positions": by_topic(self.positions)}
        told = {"schema": self.schema, "losses": self.losses, "topic_ids": dict(self.topic_ids)}
        names = {topic: [*logs] for topic, logs in by_topic(dict.fromkeys(sorted(self.gone), 0)).items()}
        gone = {"gone": names} if names else {}
        return _FORMAT.seal({"id": self.id, **content, **told, **gone})

    @classmethod
    def from_json(cls, text: str, path: str) -> Plan:
        """Read ``to_json``'s text. Raises ``StateError`` (fatal) that names ``path``."""
        return _FORMAT.read(text, path, cls._of)

    @classmethod
    def _of(cls, content: Mapping[str, Any]) -> Plan:
        gone = {topic: dict.fromkeys(names) for topic, names in content.get("gone", {}).items()}
        return cls(
            batch=content["batch"],
            ranges=tuple(OffsetRange(log, *ends) for log, ends in by_log(content["ranges"])),
            positions=dict(by_log(content["positions"])),
            schema=content["schema"],
            losses=tuple(content["losses"]),
            topic_ids=dict(content.get("topic_ids", {})),
            id=content.get("id"),
            gone=frozenset(log for log, _ in by_log(gone)),
        )


def ranges_to_read(
    all_bounds: Iterable[LogBounds], starts: Positions, *, fail_on_data_loss: bool
) -> tuple[list[OffsetRange], dict[TopicPartition, str]]:
    """From where each log starts to its end, and a line for each log that has lost some of that.

    Raises ``DataLossError`` where something was deleted, or the log is shorter than what was read of
    it, unless ``fail_on_data_loss`` is false.
    """
    ranges, losses = [], {}
    for bounds in all_bounds:
        start = starts[bounds.log]
        if not bounds.earliest <= start <= bounds.latest:
            loss = _loss(bounds, start)
            if fail_on_data_loss:
                raise DataLossError(f"{loss}; to read what is there, set failOnDataLoss=false")
            losses[bounds.log] = loss
            start = bounds.earliest
        ranges.append(OffsetRange(bounds.log, start, bounds.latest))
    return ranges, losses


def _loss(bounds: LogBounds, start: int) -> str:
    if start > bounds.latest:
        return f"{bounds.log} ends at {bounds.latest} and was read up to {start}: it was made anew"
    return deleted(OffsetRange(bounds.log, start, bounds.earliest))


def deleted(lost: OffsetRange) -> str:
    """The line for offsets that were to be read."""
    return f"{lost} was deleted before it was read"


def limited(
    ranges: Sequence[OffsetRange], size_max: int | None, bounds: Mapping[TopicPartition, LogBounds]
) -> tuple[OffsetRange, ...]:
    """The first ``size_max`` offsets of the ranges, each log in proportion; empty ones are left out."""
    if size_max is not None and sum(each.size for each in ranges) > size_max:
        ranges = shares.limited(ranges, size_max, bounds)
    return tuple(each for each in ranges if each.size)


def next_plan(
    last: Plan | None,
    ranges: Sequence[OffsetRange],
    starts: Positions,
    schema: str | None,
    losses: Iterable[str] = (),
    topic_ids: Mapping[str, str] = MappingProxyType({}),
    gone: Iterable[TopicPartition] = (),
) -> Plan:
    """The plan after ``last``; logs of which nothing is read keep their place, ``gone`` or not.

    What was known of a topic that ``topic_ids`` tells to be another one now is forgotten.
    """
    anew = last.made_anew(topic_ids) if last else set()
    kept = {log: at for log, at in last.positions.items() if log.topic not in anew} if last else {}
    after = {each.log: each.stop_offset for each in ranges}
    return Plan(
        last.batch + 1 if last else 0,
        tuple(ranges),
        {**kept, **starts, **after},
        schema,
        tuple(losses),
        {**(last.topic_ids if last else {}), **topic_ids},
        uuid.uuid4().hex,
        frozenset(gone),
    )
