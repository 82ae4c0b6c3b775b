"""Shows the position of a streaming query from its checkpoint, and converts the checkpoint for the other
connector, or to offsets that the user chooses.

    metadata           {"id":"the query's"}
    offsets/7          v1, a line of JSON about the batch, and a line for each source: where batch 7 ends
    commits/7          batch 7 is done
    sources/0/0        NUL v1, and where format("kafka") as source 0 began; ours cannot see it
    offsets/.0.ID.tmp  batch 0 while it is written: left by a driver that was killed then

Beside each may be a checksum of Hadoop's, ``.7.crc``. Source: Spark's OffsetSeqLog, CommitLog,
CheckpointFileManager and KafkaSourceInitialOffsetWriter.

Either connector continues a query whose first batch is done. Until then only the source knows the start
of that batch: Spark's own connector has it in a file. This package takes it from its options again, and
marks the end of a first batch whose start would otherwise move, such as ``latest``.

A place that the user chooses:

    {"t": {"0": 11}}     partition 0 of t continues at offset 11
    {"t": {}}            t is read from its first record, as a new topic is

The ids of the named topics are left out, too: the query takes the topics as they are when it starts.
"""

from __future__ import annotations

import contextlib
import enum
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ..errors import OptionError, one_line, printable, quote
from ..model import Generation, TopicPartition
from ..options.selection import PARTITION_SYNTAX
from ..planner.stream_offsets import (
    ID_MARK,
    PART_MARK,
    PIN_MARK,
    Position,
    from_json,
    ids_from_json,
    is_pinned,
    losses,
    to_json,
)
from .arguments import arg, check_needs, flag
from .files import FileError, LocalFiles, list_numbered, printable_path, write_file
from .progress import Progress, align_rows

#: Beginning of the file of a start: a zero byte, for Spark 2.1, and the version.
_START_HEAD: Final = "\0v1\n"
_NUMBER: Final = "(0|[1-9][0-9]{0,17})"
#: The first batch's file before it gets its name, and the checksum of that.
_UNFINISHED_FILE: Final = re.compile(r"\.0\.[0-9a-f-]{36}\.tmp|\.\.0\.[0-9a-f-]{36}\.tmp\.crc")
_BACKUP: Final = "kafkawire-backup"


class CheckpointError(FileError):
    """A checkpoint that is not as Spark writes one, or that cannot be rewritten. Fatal."""


@dataclass(frozen=True, slots=True)
class CheckpointBatch:
    """The last batch of a checkpoint: where it begins and ends in each source; None for the start of the
    first batch."""

    number: int
    is_done: bool
    begins: tuple[str | None, ...]
    ends: tuple[str, ...]


class CheckpointFiles:
    """A checkpoint on this machine's file systems. All methods raise ``FileError`` (fatal)."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._files = LocalFiles()

    def query_id(self) -> str:
        """The id that the query has in all of its runs."""
        path = f"{self.path}/metadata"
        result = _json(path, self._files.read(path))
        if not isinstance(result, dict) or not isinstance(result.get("id"), str):
            raise CheckpointError(
                f"{printable_path(path)} has no id: this is not the checkpoint of a query; give its "
                "checkpointLocation"
            )
        return str(result["id"])

    def last_batch(self) -> CheckpointBatch | None:
        """The last one that was planned; None before the first."""
        planned, done = self._numbers("offsets"), self._numbers("commits")
        if not planned:
            return None
        last = planned[-1]
        is_done = last in done
        if last and not is_done and last - 1 not in done:
            raise CheckpointError(
                f"{printable_path(self.path)}: batches {last - 1} and {last} are not done, or their "
                "commits are missing: only the last batch of a query can be unfinished; restore a "
                "copy of the checkpoint"
            )
        ends = self._ends(last)
        begins = self._ends(last - 1) if last else (None,) * len(ends)
        if len(begins) != len(ends):
            raise CheckpointError(
                f"{printable_path(self.path)}: batches {last - 1} and {last} have different sources; let "
                "the query do one more batch first"
            )
        return CheckpointBatch(last, is_done, begins, ends)

    def list_unfinished(self) -> list[str]:
        """Files of a first batch that a killed driver left. The query cannot start with them. Empty if the
        checkpoint has a batch, because Spark ignores the files then."""
        if self._numbers("offsets") or self._numbers("commits"):
            return []
        names = self._files.names(f"{self.path}/offsets")
        return [f"offsets/{name}" for name in names if _UNFINISHED_FILE.fullmatch(name)]

    def set_aside(self, name: str, backup: str) -> str:
        """Move a file of an unfinished batch out of Spark's way; its new path."""
        kept = self._backup(backup)
        self._files.rename(f"{self.path}/{name}", kept)
        return kept

    def set_batch_aside(self, number: int) -> str:
        """Move an unfinished batch out of the query's way; its new path."""
        kept = self.set_aside(f"offsets/{number}", f"offsets-{number}")
        self._remove_checksum(f"offsets/{number}")
        return kept

    def start(self, source: int) -> str | None:
        """The start of ``format("kafka")`` as this source; None if it has recorded none."""
        path = f"{self.path}/sources/{source}/0"
        if not self._files.exists(path):
            return None
        text = self._files.read(path)
        if not text.startswith(_START_HEAD):
            raise CheckpointError(
                f"{printable_path(path)}: {quote(text[:20])} is not the beginning that format(kafka) "
                "writes; restore a copy of the file"
            )
        return text.removeprefix(_START_HEAD)

    def replace_start(self, source: int, offsets: str) -> str | None:
        """Let ``format("kafka")`` begin there; the path of the kept old file, None if there was none."""
        self._files.make_folder(f"{self.path}/sources/{source}")
        return self._replace(f"sources/{source}/0", _START_HEAD + offsets)

    def replace_ends(self, number: int, ends: tuple[str, ...]) -> str | None:
        """Let a batch end there in its sources; the path of the kept old file."""
        version, about, *_ = self._files.read(f"{self.path}/offsets/{number}").split("\n")
        return self._replace(f"offsets/{number}", "\n".join((version, about, *ends)))

    def _replace(self, name: str, text: str) -> str | None:
        path, kept = f"{self.path}/{name}", None
        if self._files.exists(path):
            kept = self._backup(name.replace("/", "-"))
            self._files.create(kept, self._files.read(path))
        self._remove_checksum(name)
        write_file(Path(path), text, "CHECKPOINT")
        return kept

    def _remove_checksum(self, name: str) -> None:
        """Hadoop's checksum is that of the file before, and Spark reads a file without one."""
        folder, _, file = name.rpartition("/")
        self._files.remove(f"{self.path}/{folder}/.{file}.crc")

    def _backup(self, name: str) -> str:
        """An unused path, for the kept file."""
        folder, number = f"{self.path}/{_BACKUP}", 0
        self._files.make_folder(folder)
        while self._files.exists(f"{folder}/{name}.{number}"):
            number += 1
        return f"{folder}/{name}.{number}"

    def _numbers(self, folder: str) -> list[int]:
        return [number for number, _ in list_numbered(self._files, f"{self.path}/{folder}", _NUMBER)]

    def _ends(self, number: int) -> tuple[str, ...]:
        path = f"{self.path}/offsets/{number}"
        version, *lines = self._files.read(path).split("\n")
        if version == "v2":
            raise CheckpointError(
                f"{printable_path(path)}: the sources of the query have names (readStream.name), and this "
                "command reads checkpoints without them; the query itself continues from it"
            )
        if version != "v1" or len(lines) < 2:
            raise CheckpointError(
                f"{printable_path(path)}: it begins with {quote(version)} instead of v1, a line about the "
                "batch, and a line for each source; restore a copy of the file"
            )
        return tuple(lines[1:])


def local_path(text: str) -> str:
    """The path that an argument names: a path of this machine, or a URI ``file:/...``.

    Raises ``OptionError`` (fatal) for any other file system: its folders are copied here first.
    """
    parts = urlsplit(text)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        return unquote(parts.path).rstrip("/") or "/"
    if "://" in text or parts.scheme in ("file", "hdfs", "s3a", "dbfs", "abfss", "gs"):
        raise OptionError(
            f"argument CHECKPOINT: {quote(text)} is not on this machine: only paths and file: URIs are "
            "read; copy a checkpoint of another file system here, and copy the result back"
        )
    return text.rstrip("/") or "/"


def _json(path: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise CheckpointError(
            f"{printable_path(path)}: {quote(text[:60])} is not JSON; restore a copy of the file"
        ) from None


KAFKA: Final = "kafka"
KAFKAWIRE: Final = "kafkawire"


class Need(enum.Enum):
    """Conditions for a connector to continue from a checkpoint."""

    NOTHING = "continues without changes"
    #: The source is no Kafka's, or stays with the one connector that can read it.
    NOT_KAFKA = "is not a Kafka source"
    ONLY_OURS = "is Kafka 0.7, which only format(kafkawire) reads"
    #: The start is in a file that this connector cannot see.
    GIVEN_START = "continues with these startingOffsets, until its first batch is done"
    #: The start must be written to the file where this connector looks for it.
    WRITTEN_START = "continues from these offsets once they are written"
    #: Only the user who began the query knows the start.
    SAME_OPTIONS = "begins its first batch at startingOffsets: give the same options as before"
    PART_GIVEN = (
        "has a first batch with given starts for some partitions: give those as startingOffsets, and these "
        "offsets for the other partitions"
    )


@dataclass(frozen=True, slots=True)
class Source:
    """A source of a checkpoint. ``written`` is the text of its last offsets, ``start`` that of Spark's own
    connector; ``first`` is true if its first batch is not done."""

    number: int
    written: str
    start: str | None
    first: bool

    @property
    def is_kafka(self) -> bool:
        """True if its offsets are Kafka's."""
        return self._read is not None

    @property
    def kind(self) -> str:
        """The generation of Kafka, for people."""
        return self._read[0].title if self._read else "not Kafka's"

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The end of the last batch."""
        return self._read[1] if self._read else {}

    @property
    def writer(self) -> str:
        """The connector that wrote the offsets: Spark's own leaves no blanks."""
        return KAFKAWIRE if self.written == json.dumps(json.loads(self.written)) else KAFKA

    def need(self, target: str) -> Need:
        """The condition for a connector to continue here."""
        if self._read is None:
            return Need.NOT_KAFKA
        if target == KAFKA and not self._read[0].has_spark_connector:
            return Need.ONLY_OURS
        if not self.first:
            return Need.NOTHING
        marks = json.loads(self.written)
        if target == KAFKAWIRE:
            unpinned = Need.SAME_OPTIONS if self.start is None else Need.GIVEN_START
            return Need.NOTHING if is_pinned(marks) else unpinned
        if PIN_MARK in marks:
            return Need.NOTHING if self.start == self.given_start else Need.WRITTEN_START
        if PART_MARK in marks:
            return Need.PART_GIVEN
        return Need.SAME_OPTIONS if self.start is None else Need.NOTHING

    @property
    def given_start(self) -> str | None:
        """The start of an unfinished first batch, as Spark's own connector writes it; None if it is not
        recorded."""
        if not self.first or not self.is_kafka:
            return None
        if is_pinned(json.loads(self.written)):
            return _text(self.offsets)
        return self.start

    @property
    def _read(self) -> tuple[Generation, dict[TopicPartition, int]] | None:
        try:
            return _parse_offsets(json.loads(self.written))
        except ValueError:
            return None


def _parse_offsets(written: Any) -> tuple[Generation, dict[TopicPartition, int]] | None:
    """Offsets and their generation. Those of no partitions are of either; only those of later Kafka are for
    both connectors."""
    for generation, syntax in reversed(tuple(PARTITION_SYNTAX.items())):
        with contextlib.suppress(OptionError):
            return generation, from_json(written, syntax)
    return None


def _text(offsets: Mapping[TopicPartition, int]) -> str:
    return json.dumps(to_json(offsets), separators=(",", ":"))


#: Offsets to continue at, by topic and partition.
Places = Mapping[str, Mapping[str, int]]


def parse_places(text: str) -> Places:
    """The offsets of an argument. Raises ``OptionError`` (fatal)."""
    try:
        places = json.loads(text)
    except ValueError:
        places = None
    if not isinstance(places, dict) or not places or _parse_offsets(places) is None:
        raise OptionError(
            f"argument --place: {quote(text)} is not JSON of the form "
            '{"topic":{"0":123}}, or {"topic":{}} to read a topic from its first record'
        )
    return places


def place_query(
    files: CheckpointFiles, batch: CheckpointBatch | None, places: Places, *, write: bool
) -> Iterator[str]:
    """Move the query there, if ``write`` is set; lines about each change.

    Raises ``CheckpointError`` (fatal) before anything is written.
    """
    number, ends = _read_position(batch)
    unread = [topic for topic in places if not any(topic in _offsets(end) for end in ends)]
    if unread:
        raise CheckpointError(
            f"argument --place: no source of the checkpoint has offsets of {printable(unread[0])}; correct "
            "its name; nothing was written"
        )
    changed = tuple(_place_offsets(end, places) for end in ends)
    for at, (before, after) in enumerate(zip(ends, changed, strict=True)):
        if before != after:
            yield f"source {at}: batch {number} ends at {after}" + ("" if write else ", with --write")
    if not write:
        return
    if batch is not None and number != batch.number:
        yield f"set aside: batch {batch.number}, which is not done, is {files.set_batch_aside(batch.number)}"
    yield f"written: offsets/{number}; the old file is in {files.replace_ends(number, changed)}"


def _read_position(batch: CheckpointBatch | None) -> tuple[int, tuple[str, ...]]:
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
    read = Source(0, text, None, first=False)
    return Position(read.offsets, ids_from_json(json.loads(text))) if read.is_kafka else Position({})


def _offsets(text: str) -> frozenset[str]:
    return frozenset(tp.topic for tp in _position(text).offsets)


def _place_offsets(text: str, places: Places) -> str:
    if not places.keys() & _offsets(text):
        return text
    written: dict[str, dict[str, int]] = json.loads(text)
    for topic, partitions in places.items():
        if topic not in written:
            continue
        if unknown := partitions.keys() - written[topic].keys():
            raise CheckpointError(
                f"argument --place: the checkpoint has no partition {quote(min(unknown))} of "
                f"{printable(topic)}; correct its number; nothing was written"
            )
        written[topic] = {**written[topic], **partitions} if partitions else {}
    is_named = tuple(f"{ID_MARK}{topic} " for topic in places)
    kept = {key: item for key, item in written.items() if not key.startswith(is_named)}
    kept = {key: item for key, item in kept.items() if item or key not in places}
    is_ours = Source(0, text, None, first=False).writer == KAFKAWIRE
    return json.dumps(kept, separators=None if is_ours else (",", ":"))


#: Advice for a checkpoint that this command cannot repair.
_REFUSED: Final = (Need.ONLY_OURS, Need.PART_GIVEN)
_UNFINISHED: Final = (
    "was left by a driver that was killed before it recorded its first batch: Spark starts no query "
    "with it (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY); --to with --write sets it aside"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOptions:
    """Options of a run; ``place`` has the offsets to move the query to. Raises ``OptionError`` (fatal) for
    arguments that contradict each other."""

    path: str = arg(
        "checkpoint", "the folder given as checkpointLocation", required=True, metavar="CHECKPOINT"
    )
    target: str | None = arg("--to", "the connector that will continue the query", choices=(KAFKA, KAFKAWIRE))
    place: Places | None = arg(
        "--place",
        'the offsets to continue from: \'{"topic": {"0": 11}}\'',
        metavar="OFFSETS",
        make=parse_places,
    )
    write: bool = flag(
        "--write",
        "change the checkpoint as --to or --place requires; stop the query first",
        needs=("target", "place"),
    )

    def __post_init__(self) -> None:
        if self.target is not None and self.place is not None:
            raise OptionError("arguments --place and --to cannot be combined: run the command once with each")
        check_needs(self)


def run_checkpoints(options: CheckpointOptions, progress: Progress, as_json: bool) -> dict[str, Any]:
    """The summary that is still to be printed: unless ``as_json`` everything is printed here.

    Raises ``OptionError`` and ``FileError`` (fatal).
    """
    progress.step("reading the checkpoint")
    target, location, write = options.target, options.place, options.write
    files = CheckpointFiles(local_path(options.path))
    query_id, batch = files.query_id(), files.last_batch()
    is_first = batch is not None and batch.number == 0 and not batch.is_done
    sources = tuple(
        Source(number, written, files.start(number), is_first)
        for number, written in enumerate(batch.ends if batch else ())
    )
    notes = [f"{name} {_UNFINISHED}" for name in files.list_unfinished()]
    notes += _notes(target, sources) if target else []
    if target and write:
        notes += _rewritten(files, target, sources)
    if location is not None:
        notes += place_query(files, batch, location, write=write)
    if as_json:
        return _summary(files.path, query_id, batch, sources, notes)
    for line in (f"{files.path}, query {query_id}", _state_of(batch), *_tables(sources), *notes):
        print(one_line(line))
    return {}


def _rewritten(files: CheckpointFiles, target: str, sources: tuple[Source, ...]) -> Iterator[str]:
    """Write the files that the target needs; raises ``CheckpointError`` before anything is written."""
    for source in sources:
        if (need := source.need(target)) in _REFUSED:
            raise CheckpointError(f"source {source.number} {need.value}; nothing was written")
    for name in files.list_unfinished():
        yield f"set aside: {name} is {files.set_aside(name, 'offsets-0-unfinished')}"
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


def _state_of(batch: CheckpointBatch | None) -> str:
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
        yield from align_rows([("topic", "partition", "offset"), *rows])


def _summary(
    path: str, query_id: str, batch: CheckpointBatch | None, sources: tuple[Source, ...], notes: list[str]
) -> dict[str, Any]:
    return {
        "checkpoint": path,
        "query": query_id,
        "last_batch": batch.number if batch else None,
        "is_done": batch.is_done if batch else None,
        "sources": [
            {
                "source": source.number,
                "kind": source.kind,
                "written_by": source.writer if source.is_kafka else None,
                "offsets": to_json(source.offsets),
                "start": json.loads(source.given_start) if source.given_start else None,
            }
            for source in sources
        ],
        "notes": notes,
    }
