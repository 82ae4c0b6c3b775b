"""Moves a query to offsets that the user chooses, where its checkpoint alone is not enough.

    {"t": {"0": 11}}     partition 0 of t continues at offset 11
    {"t": {}}            t is read from its first record, as a new topic is

The ids of the named topics are left out, too: the query takes the topics as they are when it starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from spark_kafkawire.errors import OptionError, printable, quoted
from spark_kafkawire.options.offsets import PARTITION_SYNTAX
from spark_kafkawire.planner.stream_losses import losses
from spark_kafkawire.planner.stream_offsets import ID_MARK, Position, from_json, ids_from_json

from .files import CheckpointBatch, CheckpointError, CheckpointFiles
from .sources import KAFKAWIRE, sources_of

#: Offsets to continue at, by topic and partition.
Places = Mapping[str, Mapping[str, int]]


def parse_places(text: str) -> Places:
    """The offsets of an argument. Raises ``OptionError`` (fatal)."""
    try:
        places = json.loads(text)
    except ValueError:
        places = None
    if not isinstance(places, dict) or not places or not any(_is_read(places)):
        raise OptionError(
            f"argument --place: {quoted(text)} is not JSON of the form "
            '{"topic":{"0":123}}, or {"topic":{}} to read a topic from its first record'
        )
    return places


def _is_read(places: Any) -> Iterator[bool]:
    for syntax in PARTITION_SYNTAX.values():
        try:
            from_json(places, syntax)
        except OptionError:
            yield False
        else:
            yield True


def placed(
    files: CheckpointFiles, batch: CheckpointBatch | None, places: Places, *, write: bool
) -> Iterator[str]:
    """Move the query there, if ``write`` is set; lines about each change.

    Raises ``CheckpointError`` (fatal) before anything is written.
    """
    number, ends = _standing(batch)
    unread = [topic for topic in places if not any(topic in _offsets(end) for end in ends)]
    if unread:
        raise CheckpointError(
            f"argument --place: no source of the checkpoint has offsets of {printable(unread[0])}; correct "
            "its name; nothing was written"
        )
    changed = tuple(_placed(end, places) for end in ends)
    for at, (before, after) in enumerate(zip(ends, changed, strict=True)):
        if before != after:
            yield f"source {at}: batch {number} ends at {after}" + ("" if write else ", with --write")
    if not write:
        return
    if batch is not None and number != batch.number:
        yield f"set aside: batch {batch.number}, which is not done, is {files.set_batch_aside(batch.number)}"
    yield f"written: offsets/{number}; the old file is in {files.replace_ends(number, changed)}"


def _standing(batch: CheckpointBatch | None) -> tuple[int, tuple[str, ...]]:
    """The last finished batch, and its ends. An unfinished batch must contain a loss, with which it cannot
    run: any other one runs again first, because its sink may have its rows."""
    if batch is None:
        raise CheckpointError(
            "the query of this checkpoint has planned no batch, so it has no offsets to change: set "
            "startingOffsets for the query"
        )
    if batch.is_done:
        return batch.number, batch.ends
    begins = tuple(begin for begin in batch.begins if begin is not None)
    if len(begins) != len(batch.ends) or not any(map(_is_loss, begins, batch.ends)):
        raise CheckpointError(
            f"batch {batch.number} is not done and will run again: start the query, and place it after that"
        )
    return batch.number - 1, begins


def _is_loss(begin: str, end: str) -> bool:
    return bool(losses(_position(begin), _position(end)))


def _position(text: str) -> Position:
    read = sources_of(CheckpointBatch(0, True, (None,), (text,)), {})[0]
    return Position(read.offsets, ids_from_json(json.loads(text))) if read.is_kafka else Position({})


def _offsets(text: str) -> frozenset[str]:
    return frozenset(tp.topic for tp in _position(text).offsets)


def _placed(text: str, places: Places) -> str:
    if not places.keys() & _offsets(text):
        return text
    written: dict[str, dict[str, int]] = json.loads(text)
    for topic, partitions in places.items():
        if topic not in written:
            continue
        if unknown := partitions.keys() - written[topic].keys():
            raise CheckpointError(
                f"argument --place: the checkpoint has no partition {quoted(min(unknown))} of "
                f"{printable(topic)}; correct its number; nothing was written"
            )
        written[topic] = {**written[topic], **partitions} if partitions else {}
    is_named = tuple(f"{ID_MARK}{topic} " for topic in places)
    kept = {key: each for key, each in written.items() if not key.startswith(is_named)}
    kept = {key: each for key, each in kept.items() if each or key not in places}
    [source] = sources_of(CheckpointBatch(0, True, (None,), (text,)), {})
    return json.dumps(kept, separators=None if source.writer == KAFKAWIRE else (",", ":"))
