"""The logs below a path: folders of topics and partitions, their segments, and the checkpoints above them.

    directory = scan("/backup/kafka-logs")
    for name in directory.logs:
        folder = directory.log(name)          # its files are listed now
        folder.segments                       # in the order of their offsets

A directory is one of a broker's ``log.dirs``. Its logs are of Kafka 0.7 or of 0.8 and later, never of both.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ..errors import CorruptDataError, list_some, printable, quote
from ..model import Generation
from . import FileKind, FileName, FileState, LogName, file_name, log_name, side_files
from .file_systems import FileInfo
from .files import FileAccessError, Files, FileSystemOptions, open_files
from .side_files import EpochStart

T = TypeVar("T")
R = TypeVar("R")
#: Requests at once to an object store, while a read is planned.
_AT_ONCE: Final = 16
#: Most folders that an error lists.
_SHOWN_MAX: Final = 3
_BROKER_ID: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
#: States of files that are read.
_READ: Final = (FileState.LIVE, FileState.SWAP)
#: Largest segments, bytes. A broker refuses one that is longer than an int (FileRecords.java). 0.7 begins the
#: next one after the request that passes ``log.file.size``, and both are ints.
_SEGMENT_BYTES_MAX: Final = {FileKind.LOG: 2**31 - 1, FileKind.V07_LOG: 2**32 - 2}
_GENERATIONS: Final = {FileKind.LOG: Generation.MODERN, FileKind.V07_LOG: Generation.V07}
#: Kinds of files beside a segment of Kafka 0.8 and later.
_BESIDE: Final = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file: ``base_offset`` is the offset of its first byte in 0.7, later that of its first record
    or a smaller one. The other fields are files beside it, or None."""

    base_offset: int
    file: FileInfo
    offset_index: FileInfo | None = None
    time_index: FileInfo | None = None
    txn_index: FileInfo | None = None

    @property
    def size(self) -> int:
        """Bytes of the file when it was listed."""
        return self.file.size


@dataclass(frozen=True, slots=True)
class LogFolder:
    """The files of one log when it was listed.

    ``segments`` are those that a broker would load, ascending, ``swapped`` those that replace some of them:
    their rename was interrupted. ``snapshots`` are the files of producers' states by their offsets.
    ``generation`` is None for a log without segments."""

    name: LogName
    path: str
    segments: tuple[Segment, ...]
    swapped: tuple[Segment, ...] = ()
    snapshots: Mapping[int, FileInfo] = field(default_factory=dict)
    #: ``leader-epoch-checkpoint`` and ``partition.metadata``.
    others: Mapping[str, FileInfo] = field(default_factory=dict)
    generation: Generation | None = None


@dataclass(slots=True)
class LogDirectory:
    """One of a broker's ``log.dirs``: its logs, and the checkpoints for all of them."""

    files: Files
    settings: FileSystemOptions
    logs: Mapping[LogName, FileInfo]
    #: Files beside the folders.
    others: Mapping[str, FileInfo]
    _folders: dict[LogName, LogFolder] = field(default_factory=dict)
    #: Files of all logs are read once, not for each of them.
    _offsets: dict[str, Mapping[LogName, int]] = field(default_factory=dict)
    _properties: dict[LogName | None, Mapping[str, str]] = field(default_factory=dict)

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics of the logs, sorted."""
        return tuple(sorted({name.topic for name in self.logs}))

    def log(self, name: LogName) -> LogFolder:
        """The files of a log, which are listed at the first call. Raises ``FileAccessError`` (fatal)."""
        if name not in self._folders:
            self._folders[name] = self._listed(name)
        return self._folders[name]

    def list_logs(self, names: Sequence[LogName]) -> None:
        """List the files of several logs, several at once where each takes a request."""
        missing = [name for name in names if name not in self._folders]
        result = each_of(self._listed, missing, at_once=1 if self.files.is_local else _AT_ONCE)
        self._folders.update(zip(missing, result, strict=True))

    def offsets(self, checkpoint: str) -> Mapping[LogName, int]:
        """The offsets of a checkpoint by log; empty without the file.

        Raises ``CorruptDataError`` (fatal) that names the file."""
        if checkpoint not in self._offsets:
            self._offsets[checkpoint] = self._parsed(self.others.get(checkpoint), side_files.offsets_of)
        return self._offsets[checkpoint]

    def epochs(self, name: LogName) -> tuple[EpochStart, ...]:
        """The leader epochs of a log; empty without the file. Raises ``CorruptDataError`` (fatal) that names
        the file."""
        return self._parsed(self.log(name).others.get(side_files.LEADER_EPOCHS), side_files.epochs_of)

    def properties(self, name: LogName | None = None) -> Mapping[str, str]:
        """``meta.properties``, or ``partition.metadata`` of a log; empty without the file."""
        if name not in self._properties:
            beside = self.others if name is None else self.log(name).others
            file = side_files.META_PROPERTIES if name is None else side_files.PARTITION_METADATA
            self._properties[name] = self._parsed(beside.get(file), side_files.properties_of)
        return self._properties[name]

    @property
    def broker_id(self) -> int | None:
        """The id of the broker, from ``meta.properties``; None before Kafka 0.8.2, or without the file."""
        result = self.properties(None)
        # node.id is that of KRaft.
        text = result.get("node.id", result.get("broker.id", ""))
        return int(text) if _BROKER_ID.fullmatch(text) else None

    def _parsed(self, file: FileInfo | None, parse: Callable[[bytes], R]) -> R:
        """The values in a file; without one those of an empty file. A broker replaces these files, so one may
        be gone for a moment and is there at the next look."""
        if file is None:
            return parse(b"")
        for _ in range(2):
            with contextlib.suppress(FileNotFoundError):
                data = self.files.read(file.path, side_files.BYTES_MAX)
                try:
                    return parse(data)
                except CorruptDataError as error:
                    raise error.locate(self.files.shown(file.path)) from error
        return parse(b"")

    def _listed(self, name: LogName) -> LogFolder:
        path = self.logs[name].path
        try:
            result = self.files.listed(path)
        except FileNotFoundError:  # the topic was deleted meanwhile
            result = []
        _check_kinds(self.files, result)
        return _folder(name, path, result)


def scan(path: str, options: FileSystemOptions | None = None) -> LogDirectory:
    """The log directory at a path. Folders of logs are listed when they are used.

    Raises ``FileAccessError`` (fatal): there is no such path, or no Kafka log directly below it.
    """
    options = options or FileSystemOptions()
    files = open_files(path, options)
    shown = files.shown(files.root)
    try:
        result = files.listed(files.root)
    except FileNotFoundError:
        machine = "; on a cluster it must be there for the driver and for all executors" * files.is_local
        raise FileAccessError(f"path {quote(shown)} does not exist{machine}") from None
    _check_kinds(files, result)
    logs = {name: item for item in result if item.is_folder and (name := log_name(item.name))}
    if not logs:
        raise FileAccessError(f"path {quote(shown)}: {_why_no_log(files, result)}")
    return LogDirectory(files, options, logs, {item.name: item for item in result if not item.is_folder})


def generation_in(directory: LogDirectory) -> Generation:
    """The generation of the first log with segments. Raises ``FileAccessError`` (fatal) if no log has any: a
    folder ``kafka-logs-1`` has the name of a log, and may be a directory of logs."""
    result = (directory.log(name).generation for name in sorted(directory.logs))
    for generation in filter(None, result):
        return generation
    files = directory.files
    reason = _why_no_log(files, list(directory.logs.values()))
    raise FileAccessError(f"path {quote(files.shown(files.root))}: {reason}")


def _why_no_log(files: Files, result: Sequence[FileInfo]) -> str:
    """The likely reason why a folder holds no log, and the path that may be meant."""
    if any(file_name(item.name) for item in result):
        topic = log_name(files.root.rpartition("/")[2])
        select = f" and the option subscribe={printable(topic.topic)}" if topic else ""
        return f"it is the folder of one log; give the folder above it{select}"
    below = []
    for item in [item for item in result if item.is_folder][:_AT_ONCE]:
        if any(inner.is_folder and log_name(inner.name) for inner in files.listed(item.path)):
            below.append(item)
    if below:
        paths = list_some(below, _SHOWN_MAX, lambda item: files.shown(item.path))
        return f"no Kafka log is directly below it, but there are some below {paths}; give these paths"
    return (
        "no Kafka log is below it: there is no folder topic-partition, such as events-0; give the log.dir "
        "of a broker"
    )


def _check_kinds(files: Files, result: Sequence[FileInfo]) -> None:
    """Raise ``FileAccessError`` (fatal) for what has the name of a log or of a file of one, and is of another
    kind: a read would leave it out. So it would a pipe or a link to nothing, which have no bytes."""
    for item in result:
        parts = file_name(item.name)
        is_read = parts is not None and parts.state in _READ
        bytes_max = _SEGMENT_BYTES_MAX.get(parts.kind) if parts is not None and is_read else None
        if item.is_folder:
            if is_read or item.name in side_files.NAMES:
                raise FileAccessError(
                    f"{files.shown(item.path)} has the name of a file, and is a folder: remove or rename it"
                )
        elif bytes_max is not None and item.size > bytes_max:
            raise FileAccessError(
                f"{files.shown(item.path)} has {item.size} bytes, and a broker writes at most {bytes_max}: "
                "copy it again from the broker"
            )
        elif not item.size and files.is_local and (bytes_max is not None or log_name(item.name)):
            with contextlib.suppress(FileNotFoundError):  # a broker has just removed it
                files.open(item.path).close()


def _folder(name: LogName, path: str, result: Sequence[FileInfo]) -> LogFolder:
    by_name = [(parts, item) for item in result if not item.is_folder and (parts := file_name(item.name))]
    files = dict(by_name)
    live = _segments(files, FileState.LIVE)
    # Segments that a split of a segment was writing: what it has not replaced is still there.
    cleaned = [parts.offset for parts in files if parts.state is FileState.CLEANED]
    swapped = [
        item for item in _segments(files, FileState.SWAP) if item.base_offset < min(cleaned, default=2**63)
    ]
    kinds = {parts.kind for parts in files if parts.state in _READ}
    generation = next((item for kind, item in _GENERATIONS.items() if kind in kinds), None)
    return LogFolder(
        name,
        path,
        live,
        tuple(swapped),
        {
            parts.offset: item
            for parts, item in by_name
            if parts.kind is FileKind.SNAPSHOT and parts.state is FileState.LIVE
        },
        {
            item.name: item
            for item in result
            if item.name in (side_files.LEADER_EPOCHS, side_files.PARTITION_METADATA)
        },
        generation,
    )


def _segments(files: Mapping[FileName, FileInfo], state: FileState) -> tuple[Segment, ...]:
    """The segments of a state, ascending, each with the files beside it."""
    result = []
    for parts, file in files.items():
        if parts.state is state and parts.kind in _GENERATIONS:
            beside = (
                files.get(FileName(parts.offset, kind, state))
                or files.get(FileName(parts.offset, kind, FileState.LIVE))
                for kind in _BESIDE
            )
            result.append(Segment(parts.offset, file, *beside))
    return tuple(sorted(result, key=lambda segment: segment.base_offset))


def each_of(call: Callable[[T], R], arguments: Sequence[T], *, at_once: int = _AT_ONCE) -> list[R]:
    """The results of a function for each argument, several at once."""
    if at_once == 1 or len(arguments) < 2:
        return [call(item) for item in arguments]
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(call, arguments))
