"""What a migration remembers between runs: a file in a directory of the driver.

    with StateDirectory(folder) as directory:
        state = directory.load()
        directory.save(state)

A run that is killed at any moment leaves the old state or the new one.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Self

from ...clients.batches import ProducerId
from ...errors import CorruptDataError, OptionError, shown
from ...model import TopicPartition

#: Says what the file is, and changes with its layout.
_FORMAT: Final = "spark-kafkawire migration 1"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in both logs: the messages before it are the same, ``message_count`` since the first run."""

    source_offset: int
    target_offset: int
    message_count: int = 0


@dataclass(frozen=True, slots=True)
class LogProgress:
    """How far one log is.

    ``producer`` is the identity of all appends. ``topic_id`` is that of the target's topic, None
    where topics have none. The target may hold more after ``copied`` while the log ``is_open``.
    """

    source: TopicPartition
    target: TopicPartition
    topic_id: str | None
    producer: ProducerId
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
    """All logs that were begun, by source. ``source_headers`` holds for all of them."""

    source_headers: bool
    logs: Mapping[TopicPartition, LogProgress] = field(default_factory=dict)


class StateDirectory:
    """The directory, locked against a second run while the block lasts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "migration.json"
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        """Raises ``OptionError`` (fatal) where another run has it, or it cannot be written."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self._folder / "lock").open("a")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.__exit__()
            is_taken = isinstance(error, BlockingIOError)
            problem = "another run uses it now" if is_taken else error.strerror
            raise OptionError(f"argument --state: {self._folder}: {problem}") from error
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._lock is not None:
            self._lock.close()

    def load(self) -> State | None:
        """The state of the run before, None before the first one.

        Raises ``CorruptDataError`` (fatal) for a file that is something else.
        """
        return load_state(self._folder)

    def save(self, state: State) -> None:
        """Replace the state; it is on disk when this returns."""
        new = self._file.with_suffix(".new")
        with new.open("w", encoding="utf-8") as file:
            json.dump(_to_json(state), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        new.rename(self._file)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def load_state(folder: Path) -> State | None:
    """The state in a directory, which need not be there. Raises as ``StateDirectory.load``."""
    file = folder / "migration.json"
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return None
    try:
        return _from_json(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptDataError(f"{shown(file)} is not the state of a migration, or damaged") from error


def _to_json(state: State) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "source_headers": state.source_headers,
        "logs": [
            {
                "source": [log.source.topic, log.source.broker, log.source.partition],
                "target": [log.target.topic, log.target.partition],
                "topic_id": log.topic_id,
                "producer": [log.producer.id, log.producer.epoch],
                "copied": _mark_to_json(log.copied),
                "verified": _mark_to_json(log.verified),
                "open": log.is_open,
            }
            for log in state.logs.values()
        ],
    }


def _from_json(content: dict[str, Any]) -> State:
    if content["format"] != _FORMAT:
        raise ValueError(content["format"])
    logs = [
        LogProgress(
            source=TopicPartition(each["source"][0], each["source"][2], each["source"][1]),
            target=TopicPartition(*each["target"]),
            topic_id=each["topic_id"],
            producer=ProducerId(*each["producer"]),
            copied=Mark(*each["copied"]),
            verified=Mark(*each["verified"]),
            is_open=each["open"],
        )
        for each in content["logs"]
    ]
    return State(content["source_headers"], {log.source: log for log in logs})


def _mark_to_json(mark: Mark) -> list[int]:
    return [mark.source_offset, mark.target_offset, mark.message_count]
