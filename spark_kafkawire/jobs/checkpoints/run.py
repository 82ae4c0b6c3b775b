"""A run of checkpoints: shows the position of a query, or converts its checkpoint for the other connector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TextIO

from spark_kafkawire.errors import one_line

from ..shell.aligned import aligned
from .files import CheckpointBatch, CheckpointError, CheckpointFiles, local_path
from .placing import Places, placed
from .sources import Need, Source, source_summary, sources_of

#: Advice for a checkpoint that this command cannot repair.
_REFUSED: Final = (Need.ONLY_OURS, Need.PART_GIVEN)
_UNFINISHED: Final = (
    "was left by a driver that was killed before it recorded its first batch: Spark starts no query "
    "with it (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY); --to with --write sets it aside"
)


def run_checkpoints(
    path: str, target: str | None, out: TextIO, *, write: bool, json: bool, place: Places | None = None
) -> dict[str, Any]:
    """The summary that is still to be printed: without ``json`` everything is printed here. ``place`` has the
    offsets to move the query to.

    Raises ``OptionError`` and ``FileError`` (fatal).
    """
    files = CheckpointFiles(local_path(path))
    query_id, batch = files.query_id(), files.last_batch()
    ends = batch.ends if batch else ()
    sources = sources_of(batch, {at: files.start(at) for at in range(len(ends))}) if batch else ()
    notes = [f"{name} {_UNFINISHED}" for name in files.unfinished()]
    notes += _notes(target, sources) if target else []
    if target and write:
        notes += _rewritten(files, target, sources)
    if place is not None:
        notes += placed(files, batch, place, write=write)
    if json:
        return _summary(files.path, query_id, batch, sources, notes)
    for line in (f"{files.path}, query {query_id}", _standing(batch), *_tables(sources), *notes):
        print(one_line(line), file=out)
    return {}


def _rewritten(files: CheckpointFiles, target: str, sources: tuple[Source, ...]) -> Iterator[str]:
    """Write the files that the target needs; raises ``CheckpointError`` before anything is written."""
    for source in sources:
        if (need := source.need(target)) in _REFUSED:
            raise CheckpointError(f"source {source.number} {need.value}; nothing was written")
    for name in files.unfinished():
        yield f"set aside: {name} is {files.set_aside(name)}"
    for source in sources:
        if source.need(target) is Need.WRITTEN_START and source.given_start is not None:
            kept = files.replace_start(source.number, source.given_start)
            yield f"written: sources/{source.number}/0" + (f"; the old file is in {kept}" if kept else "")


def _notes(target: str, sources: tuple[Source, ...]) -> Iterator[str]:
    for source in sources:
        need = source.need(target)
        start = (
            source.given_start if need in (Need.GIVEN_START, Need.WRITTEN_START, Need.PART_GIVEN) else None
        )
        yield f"format({target}): source {source.number} {need.value}" + (f": {start}" if start else "")


def _standing(batch: CheckpointBatch | None) -> str:
    if batch is None:
        return "no batch was planned: both connectors treat it as a new query"
    state = "is done" if batch.is_done else "is not done and will run again"
    return f"batch {batch.number}, the last one, {state}"


def _tables(sources: tuple[Source, ...]) -> Iterator[str]:
    for source in sources:
        if not source.is_kafka:
            yield f"source {source.number} {Need.NOT_KAFKA.value}"
            continue
        yield f"source {source.number}: {source.kind}, offsets written by format({source.writer})"
        rows = [(tp.topic, tp.name, f"{offset:,}") for tp, offset in sorted(source.offsets.items())]
        yield from aligned([("topic", "partition", "offset"), *rows])


def _summary(
    path: str, query_id: str, batch: CheckpointBatch | None, sources: tuple[Source, ...], notes: list[str]
) -> dict[str, Any]:
    return {
        "checkpoint": path,
        "query": query_id,
        "last_batch": batch.number if batch else None,
        "is_done": batch.is_done if batch else None,
        "sources": [source_summary(source) for source in sources],
        "notes": notes,
    }
