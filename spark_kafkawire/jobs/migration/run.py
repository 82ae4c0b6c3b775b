"""One run of a migration: plan, open, copy, verify, close."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from ...errors import OptionError
from ...model import OffsetRange, TopicPartition
from ...protocol.modern.create_topics import BROKER_DEFAULT
from ..shell.progress import Progress, Work
from .clusters import Clusters
from .copying import Copied, Copier, CopyTask
from .opening import opened
from .planning import Leg, missing_topics, plan, prepare_topics
from .state import LogProgress, Mark, State, StateDirectory, load_state
from .verification import Verified, Verifier, VerifyTask

T = TypeVar("T")
R = TypeVar("R")
#: What runs a function on many tasks, side by side or not; the results in their order.
Runner = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]

#: Bytes of a log that one task copies before the state is saved.
PIECE_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asks for besides the clusters."""

    state: Path
    names: Mapping[str, str]
    create_topics: bool = False
    replication_factor: int | None = None
    piece_bytes: int = PIECE_BYTES
    gone_brokers: frozenset[int] = frozenset()


def describe(clusters: Clusters, settings: Settings) -> dict[str, Any]:
    """What a run would do, without doing anything. Raises as ``plan`` and ``missing_topics``."""
    state = _checked(load_state(settings.state), clusters)
    legs, passed_over = plan(clusters, settings.names, state, settings.gone_brokers)
    missing = missing_topics(clusters, legs, create=settings.create_topics)
    return {
        "dry_run": True,
        "logs": len(legs),
        "bytes": sum(leg.size for leg in legs),
        "topics_to_create": missing,
        "partitions": [
            {
                "source": str(leg.route.source),
                "target": str(leg.route.target),
                "start_offset": leg.start_offset,
                "stop_offset": leg.stop_offset,
                "bytes": leg.size,
            }
            for leg in legs
        ],
        "data_loss": _lost(legs) + passed_over,
    }


def migrate(clusters: Clusters, settings: Settings, run: Runner, progress: Progress) -> dict[str, Any]:
    """Copy what is new in the source, and verify it; the summary.

    ``failed`` of the summary names the partitions that are not equal. Raises ``OptionError``,
    ``DataLossError``, ``DeliveryError`` and what the brokers' failures raise (all fatal); what was
    copied stays, and the next run goes on from there.
    """
    with StateDirectory(settings.state) as directory:
        return _Run(clusters, settings, run, progress, directory).all()


class _Run:
    def __init__(
        self,
        clusters: Clusters,
        settings: Settings,
        run: Runner,
        progress: Progress,
        directory: StateDirectory,
    ) -> None:
        self._clusters = clusters
        self._settings = settings
        self._run = run
        self._progress = progress
        self._directory = directory
        self._state = _checked(directory.load(), clusters)
        self._found_count = 0
        self._copied_count = 0

    def all(self) -> dict[str, Any]:
        started_s = time.monotonic()
        self._progress.step("asking both clusters")
        settings = self._settings
        legs, passed_over = plan(self._clusters, settings.names, self._state, settings.gone_brokers)
        self._open(legs)
        legs = tuple(leg for leg in legs if self._state.logs[leg.route.source].is_open)
        size = sum(leg.stop_offset - self._mark(leg).source_offset for leg in legs)
        with self._progress.work(f"copying {len(legs)} log(s)", size_total=size) as work:
            self._copy(legs, work)
        with self._progress.work(f"verifying {len(legs)} log(s)") as work:
            partitions = self._verify(legs, work)
        return {
            "logs": len(legs),
            "messages": self._copied_count,
            "messages_found": self._found_count,
            "bytes": size,
            "partitions": partitions,
            "failed": [each["source"] for each in partitions if not each["equal"]],
            "data_loss": _lost(legs) + passed_over,
            "seconds": round(time.monotonic() - started_s, 1),
        }

    def _open(self, legs: Sequence[Leg]) -> None:
        """Note, before anything is sent, where each log's copy begins and as whom it is sent."""
        ids = prepare_topics(
            self._clusters,
            legs,
            create=self._settings.create_topics,
            replication_factor=self._settings.replication_factor or BROKER_DEFAULT,
        )
        new = [leg for leg in legs if leg.progress is None or (leg.size and not leg.progress.is_open)]
        ends = self._clusters.target_cluster.bounds([leg.route.target for leg in new])
        self._save(opened(self._clusters, leg, ends[leg.route.target], ids[leg.route.target]) for leg in new)

    def _copy(self, legs: Sequence[Leg], work: Work) -> None:
        copier = Copier(self._clusters)
        while left := [leg for leg in legs if self._mark(leg).source_offset < leg.stop_offset]:
            results: list[Copied] = self._run(copier, [self._copy_task(leg) for leg in left])
            for leg, copied in zip(left, results, strict=True):
                mark = self._mark(leg)
                count = copied.mark.message_count - mark.message_count
                self._found_count += copied.found_count
                self._copied_count += count - copied.found_count
                work.advance(messages=count, size=copied.mark.source_offset - mark.source_offset)
            self._save(
                replace(self._state.logs[leg.route.source], copied=copied.mark)
                for leg, copied in zip(left, results, strict=True)
            )

    def _copy_task(self, leg: Leg) -> CopyTask:
        log = self._state.logs[leg.route.source]
        fetch_task = leg.fetch_task(log.copied.source_offset)
        return CopyTask(fetch_task, log.target, log.copied, log.producer, self._settings.piece_bytes)

    def _verify(self, legs: Sequence[Leg], work: Work) -> list[dict[str, Any]]:
        tasks = [self._verify_task(leg) for leg in legs]
        results: list[Verified] = self._run(Verifier(self._clusters), tasks) if tasks else []
        partitions = []
        closed = []
        for leg, task, verified in zip(legs, tasks, results, strict=True):
            equal = verified.matches(task.message_count)
            work.advance(messages=verified.source_count, size=task.source.range.size)
            partitions.append(_partition(leg, verified, equal=equal))
            log = self._state.logs[leg.route.source]
            if equal:
                closed.append(replace(log, verified=log.copied, is_open=False))
        self._save(closed)
        return partitions

    def _verify_task(self, leg: Leg) -> VerifyTask:
        log = self._state.logs[leg.route.source]
        start, stop = log.verified, log.copied
        return VerifyTask(
            leg.fetch_task(start.source_offset, stop.source_offset),
            OffsetRange(log.target, start.target_offset, stop.target_offset),
            stop.message_count - start.message_count,
        )

    def _mark(self, leg: Leg) -> Mark:
        return self._state.logs[leg.route.source].copied

    def _save(self, changed: Iterable[LogProgress]) -> None:
        logs: dict[TopicPartition, LogProgress] = {**self._state.logs, **{log.source: log for log in changed}}
        self._state = State(self._clusters.source_headers, logs)
        self._directory.save(self._state)


def _partition(leg: Leg, verified: Verified, *, equal: bool) -> dict[str, Any]:
    return {
        "source": str(leg.route.source),
        "target": str(leg.route.target),
        "messages": verified.source_count,
        "sha256": verified.source_sha256,
        "target_messages": verified.target_count,
        "target_sha256": verified.target_sha256,
        **({"deleted_since": verified.gone_count} if verified.gone_count else {}),
        "equal": equal,
    }


def _lost(legs: Iterable[Leg]) -> list[str]:
    return [f"{leg.route.source}: {leg.lost_bytes} bytes" for leg in legs if leg.lost_bytes]


def _checked(state: State | None, clusters: Clusters) -> State:
    if state is None:
        return State(clusters.source_headers)
    if state.source_headers != clusters.source_headers:
        with_or_without = "with" if state.source_headers else "without"
        raise OptionError(
            f"argument --source-headers: the state directory was begun {with_or_without} it, so go on so"
        )
    return state
