"""The plan of one run of ``ingest``, decided once, and the state, which records the plans of all runs.

    7.planned.json    the batch may be complete, partly written, or absent
    7.done.json       the batch is written, and its offsets are committed to the group
    lock              says that one of these files exists (``Milestone``)

A run ends when it renames the first to the second. The files of finished batches stay: they prove that
the newest batch of an output belongs to this state.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

from spark_kafkawire.errors import DataLossError
from spark_kafkawire.model import OffsetRange, PartitionBounds, TopicPartition
from spark_kafkawire.planner.ranges import limit_ranges as in_proportion

from ..files import printable_path
from ..state import (
    RECORDED,
    JobState,
    Milestone,
    Positions,
    StateError,
    StateFormat,
    group_by_topic,
    iterate_by_partition,
)

FORMAT: Final = StateFormat(
    layout="ingest 2",
    name="a plan of ingest",
    advice="if the output has this batch, put a copy of its file _plan there; if it has not, and the file is "
    "a .planned.json, remove the file, and the next run plans the batch again; otherwise give another "
    "--output",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """A batch: its number, its ranges, and the position of each partition after it.

    ``schema`` is the schema of the values' JSON if it is decoded: a repeated read must give the same columns.
    ``losses`` are lines about lost messages at the time of planning, for the run that finishes the batch.
    ``topic_ids`` distinguish a topic from an earlier one of the same name, where topics have ids. ``id``
    distinguishes this plan from the plans of other runs. ``gone`` are partitions whose brokers the user has
    given up: this was reported, and a partition that comes back is read from its position.
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
        return sum(item.size for item in self.ranges)

    def recreated(self, topic_ids: Mapping[str, str]) -> set[str]:
        """The topics that were deleted and created again, by a comparison with their current ids."""
        return {topic for topic, now in topic_ids.items() if self.topic_ids.get(topic, now) != now}

    def to_json(self) -> str:
        """The recorded form."""
        ranges = {item.topic_partition: [item.start_offset, item.stop_offset] for item in self.ranges}
        gone = {
            topic: [*names] for topic, names in group_by_topic(dict.fromkeys(sorted(self.gone), 0)).items()
        }
        content = {
            "id": self.id,
            "batch": self.batch,
            "ranges": group_by_topic(ranges),
            "positions": group_by_topic(self.positions),
        }
        described = {"schema": self.schema, "losses": self.losses, "topic_ids": dict(self.topic_ids)}
        return FORMAT.seal({**content, **described, **({"gone": gone} if gone else {})})

    @classmethod
    def from_json(cls, text: str, path: str) -> Plan:
        """Read ``to_json``'s text. Raises ``StateError`` (fatal) that names ``path``."""
        return FORMAT.read(text, path, cls._of)

    @classmethod
    def _of(cls, content: Mapping[str, Any]) -> Plan:
        gone = {topic: dict.fromkeys(names) for topic, names in content.get("gone", {}).items()}
        return cls(
            batch=content["batch"],
            ranges=tuple(OffsetRange(tp, *ends) for tp, ends in iterate_by_partition(content["ranges"])),
            positions=dict(iterate_by_partition(content["positions"])),
            schema=content["schema"],
            losses=tuple(content["losses"]),
            topic_ids=dict(content.get("topic_ids", {})),
            id=content.get("id"),
            gone=frozenset(tp for tp, _ in iterate_by_partition(gone)),
        )


def ranges_to_read(
    all_bounds: Iterable[PartitionBounds], starts: Positions, *, fail_on_data_loss: bool
) -> tuple[list[OffsetRange], dict[TopicPartition, str]]:
    """The range of each partition from its start to its end, and a line for each partition that lost
    messages.

    Raises ``DataLossError`` if messages were deleted before they were read, or if a partition ends before the
    position that was read, unless ``fail_on_data_loss`` is false.
    """
    ranges, losses = [], {}
    for bounds in all_bounds:
        start = starts[bounds.topic_partition]
        if not bounds.earliest <= start <= bounds.latest:
            loss = _loss(bounds, start)
            if fail_on_data_loss:
                raise DataLossError(f"{loss}; to read what is there, set failOnDataLoss=false")
            losses[bounds.topic_partition] = loss
            start = bounds.earliest
        ranges.append(OffsetRange(bounds.topic_partition, start, bounds.latest))
    return ranges, losses


def _loss(bounds: PartitionBounds, start: int) -> str:
    if start > bounds.latest:
        return (
            f"{bounds.topic_partition} ends at {bounds.latest} and was read up to {start}: it was "
            "created again"
        )
    return describe_deleted(OffsetRange(bounds.topic_partition, start, bounds.earliest))


def describe_deleted(lost: OffsetRange) -> str:
    """The line for offsets that were deleted before they were read."""
    return f"{lost} was deleted before it was read"


def limit_ranges(
    ranges: Sequence[OffsetRange], size_max: int | None, bounds: Mapping[TopicPartition, PartitionBounds]
) -> tuple[OffsetRange, ...]:
    """The first ``size_max`` offsets of the ranges, each log in proportion; empty ones are left out."""
    if size_max is not None and sum(item.size for item in ranges) > size_max:
        ranges = in_proportion(ranges, size_max, bounds)
    return tuple(item for item in ranges if item.size)


def next_plan(
    last: Plan | None,
    ranges: Sequence[OffsetRange],
    starts: Positions,
    schema: str | None,
    losses: Iterable[str] = (),
    topic_ids: Mapping[str, str] = MappingProxyType({}),
    gone: Iterable[TopicPartition] = (),
) -> Plan:
    """The plan after ``last``. Partitions without new messages keep their position, also those in ``gone``.

    Positions in a topic whose id differs from ``topic_ids`` are dropped: it is another topic now.
    """
    recreated = last.recreated(topic_ids) if last else set()
    kept = {tp: at for tp, at in last.positions.items() if tp.topic not in recreated} if last else {}
    after = {item.topic_partition: item.stop_offset for item in ranges}
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


#: Number of older records that a run reads besides the newest one. They reveal a damaged disk, and a fixed
#: number keeps the start of a run fast.
RECORDS_CHECKED_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Remembered:
    """The newest plan, and whether it is done."""

    plan: Plan
    done: bool


class IngestState(JobState):
    """The folder of plans."""

    form = FORMAT

    def newest(self) -> Remembered | None:
        """The record of the last run; None before the first one."""
        result = self._list_numbered(r"([0-9]+)\.(?:planned|done)\.json")
        if not result:
            self._check_never(Milestone.BEGUN, _name(0), f" or a later one is missing{RECORDED}")
            return None
        self.reach(Milestone.BEGUN)
        newest, _ = result[-1]
        done = {batch for batch, name in result if name == _name(batch)}
        self._check_older(sorted(done - {newest}), newest)
        for batch, name in result:
            if batch not in done and batch != newest:
                raise StateError(
                    f"{self._show(name)} was never finished, and batch {newest} is recorded after it: files "
                    "of two states are mixed here; put back those of one"
                )
        return Remembered(self._plan(newest, done=newest in done), newest in done)

    def _check_older(self, batches: Sequence[int], newest: int) -> None:
        """Raise ``StateError`` where one of the records before the newest is missing, or damaged."""
        for batch, after in pairwise([*batches, newest]):
            if after > batch + 1:
                raise StateError(
                    f"{self._show(_name(batch + 1))} is missing, and batches {batch} and {after} are "
                    "recorded: put the file back, of which the file _plan of the output's "
                    f"batch={batch + 1} is a copy"
                )
        for batch in batches[-RECORDS_CHECKED_MAX:]:
            self._plan(batch, done=True)

    def done(self, batch: int) -> Plan | None:
        """The plan of a finished batch; None if it is not recorded."""
        return self._plan(batch, done=True) if self._has(_name(batch)) else None

    def _plan(self, batch: int, *, done: bool) -> Plan:
        path = self._path(_name(batch, done=done))
        plan = Plan.from_json(self._files.read(path), path)
        if plan.batch != batch:
            raise StateError(
                f"{printable_path(path)} is that of batch {plan.batch}: put back the file that was there"
            )
        return plan

    def record(self, plan: Plan) -> None:
        """Record the plan of the batch that is about to be read."""
        self._files.make_folder(self._folder)
        self._files.create(self._path(_name(plan.batch, done=False)), plan.to_json())
        self.reach(Milestone.BEGUN)

    def finish(self, plan: Plan) -> None:
        """Record that the batch is done."""
        self._files.rename(self._path(_name(plan.batch, done=False)), self._path(_name(plan.batch)))


def _name(batch: int, *, done: bool = True) -> str:
    return f"{batch}.{'done' if done else 'planned'}.json"
