"""The files of a streaming query's checkpoint, as Spark writes them.

    metadata           {"id":"the query's"}
    offsets/7          v1, a line of JSON about the batch, and a line for each source: where batch 7 ends
    commits/7          batch 7 is done
    sources/0/0        NUL v1, and where format("kafka") as source 0 began; ours cannot see it
    offsets/.0.ID.tmp  batch 0 while it is written: left by a driver that was killed then

Beside each may be a checksum of Hadoop's, ``.7.crc``.

Source: Spark's OffsetSeqLog, CommitLog, CheckpointFileManager and KafkaSourceInitialOffsetWriter.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from spark_kafkawire.errors import OptionError, quoted

from ..shell.files import write_file
from ..state.file_system import FileError, printable_path
from ..state.local_files import LocalFiles

#: Beginning of the file of a start: a zero byte, for Spark 2.1, and the version.
_START_HEAD: Final = "\0v1\n"
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,17}")
#: The first batch's file before it gets its name, and the checksum of that.
_UNFINISHED: Final = re.compile(r"\.0\.[0-9a-f-]{36}\.tmp|\.\.0\.[0-9a-f-]{36}\.tmp\.crc")
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
        found = _json(path, self._files.read(path))
        if not isinstance(found, dict) or not isinstance(found.get("id"), str):
            raise CheckpointError(
                f"{printable_path(path)} has no id: this is not the checkpoint of a query; give its "
                "checkpointLocation"
            )
        return str(found["id"])

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

    def unfinished(self) -> list[str]:
        """Files of a first batch that a killed driver left. The query cannot start with them. Empty if the
        checkpoint has a batch, because Spark ignores the files then."""
        if self._numbers("offsets") or self._numbers("commits"):
            return []
        names = self._files.names(f"{self.path}/offsets")
        return [f"offsets/{name}" for name in names if _UNFINISHED.fullmatch(name)]

    def set_aside(self, name: str) -> str:
        """Move an unfinished file out of Spark's way; its new path."""
        kept = self._backup("offsets-0-unfinished")
        self._files.rename(f"{self.path}/{name}", kept)
        return kept

    def start(self, source: int) -> str | None:
        """The start of ``format("kafka")`` as this source; None if it has recorded none."""
        path = self._start_path(source)
        if not self._files.exists(path):
            return None
        text = self._files.read(path)
        if not text.startswith(_START_HEAD):
            raise CheckpointError(
                f"{printable_path(path)}: {quoted(text[:20])} is not the beginning that format(kafka) "
                "writes; restore a copy of the file"
            )
        return text.removeprefix(_START_HEAD)

    def replace_start(self, source: int, offsets: str) -> str | None:
        """Let ``format("kafka")`` begin there; the path of the kept old file, None if there was none."""
        path = self._start_path(source)
        folder = path.rpartition("/")[0]
        self._files.make_folder(folder)
        kept = None
        if self._files.exists(path):
            kept = self._backup(f"sources-{source}-0")
            self._files.create(kept, self._files.read(path))
        # Hadoop's checksum is that of the file before, and Spark reads a file without one.
        self._files.remove(f"{folder}/.0.crc")
        write_file(Path(path), _START_HEAD + offsets, "CHECKPOINT")
        return kept

    def set_batch_aside(self, number: int) -> str:
        """Move an unfinished batch out of the query's way; its new path."""
        kept = self._backup(f"offsets-{number}")
        self._files.rename(f"{self.path}/offsets/{number}", kept)
        self._files.remove(f"{self.path}/offsets/.{number}.crc")
        return kept

    def replace_ends(self, number: int, ends: tuple[str, ...]) -> str:
        """Let a batch end there in its sources; the path of the kept old file."""
        path = f"{self.path}/offsets/{number}"
        before = self._files.read(path)
        kept = self._backup(f"offsets-{number}")
        self._files.create(kept, before)
        version, about, *_ = before.split("\n")
        # Hadoop's checksum is that of the file before, and Spark reads a file without one.
        self._files.remove(f"{self.path}/offsets/.{number}.crc")
        write_file(Path(path), "\n".join((version, about, *ends)), "CHECKPOINT")
        return kept

    def _backup(self, name: str) -> str:
        """An unused path, for the kept file."""
        folder, number = f"{self.path}/{_BACKUP}", 0
        self._files.make_folder(folder)
        while self._files.exists(f"{folder}/{name}.{number}"):
            number += 1
        return f"{folder}/{name}.{number}"

    def _start_path(self, source: int) -> str:
        return f"{self.path}/sources/{source}/0"

    def _numbers(self, folder: str) -> list[int]:
        names = self._files.names(f"{self.path}/{folder}")
        return sorted(int(name) for name in names if _NUMBER.fullmatch(name))

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
                f"{printable_path(path)}: it begins with {quoted(version)} instead of v1, a line about the "
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
            f"argument CHECKPOINT: {quoted(text)} is not on this machine: only paths and file: URIs are "
            "read; copy a checkpoint of another file system here, and copy the result back"
        )
    return text.rstrip("/") or "/"


def _json(path: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise CheckpointError(
            f"{printable_path(path)}: {quoted(text[:60])} is not JSON; restore a copy of the file"
        ) from None
