"""Migrations of a topic of three pieces that end at a step as by a kill.

topic = pieces_to_copy(corpus)
with dying(7, after_it=True), pytest.raises(Died):
    run(clusters, state, {topic: topic}, PIECE_BYTES)       # after the seventh step, or a named one
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.clients.writing.modern.producer import Producer
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.jobs.migration.copying import Copier
from spark_kafkawire.jobs.migration.matching import Present
from spark_kafkawire.jobs.migration.state import StateDirectory
from tests.support import replay
from tests.support.polling import poll

from .migrating import Killed, log_count, message_set, one_by_one, ports

_NAMES: Final = itertools.count()
#: Each message is a fetch, and a piece.
FETCH: Final = "1KiB"
PIECE_BYTES: Final = 1
VALUES: Final = [name.ljust(900, b".") for name in (b"one", b"two", b"three")]


class Died(BaseException):
    """The process ended here, and nothing that it would have done after an error happens."""


def pieces_to_copy(corpus: EmbeddedCluster) -> str:
    """A topic of the source with three messages in one partition, 0-0."""
    topic = f"pieces-{os.getpid()}-{next(_NAMES)}"
    for value in VALUES:
        replay.produce(ports(corpus)[0], (topic, 0), message_set(value))
    poll(lambda: log_count(corpus, topic) == 3, "the broker to register the topic")
    return topic


@contextlib.contextmanager
def dying(at: int | str, *, after_it: bool) -> Iterator[list[str]]:
    """The process dies at a step, counted from 0 or by its name, before or after it was done; gives the steps
    so far."""
    steps: list[str] = []
    died: list[bool] = []

    def patched(owner: type, name: str) -> Any:
        method = getattr(owner, name)

        def dies(*args: Any, **kwargs: Any) -> Any:
            if died:
                raise Died
            steps.append(name)
            died.extend([True] * (at in (name, len(steps) - 1)))
            if died and not after_it:
                raise Died
            result = method(*args, **kwargs)
            if died:
                raise Died
            return result

        return dies

    with pytest.MonkeyPatch.context() as patch:
        for name in ("begin", "commit_offsets", "end"):
            patch.setattr(Transactions, name, patched(Transactions, name))
        patch.setattr(Producer, "finish", patched(Producer, "finish"))
        patch.setattr(StateDirectory, "save", patched(StateDirectory, "save"))
        yield steps


def unheard(function: Any, tasks: Sequence[Any]) -> list[Any]:
    """Runs tasks, and dies before it hears of what they have copied."""
    results = one_by_one(function, tasks)
    if isinstance(function, Copier):
        raise Killed
    return results


def without_comparing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever compares a message of the target fails."""
    match = Present.match

    def unmatched(present: Present, values: Any) -> int:
        matched = match(present, values)
        assert not matched, "what a transaction proves was compared"
        return matched

    monkeypatch.setattr(Present, "match", unmatched)
