"""State that jobs keep between runs, and protection from a second run at the same time.

    {"t": {"0-1": 123}}                             # positions, as options, state and summaries write them
    PLAN = StateFormat("ingest 2", "a plan of ingest", advice="put the file back as it was")
    text = PLAN.seal({"batch": 7})                  # JSON with its format's name and a checksum
    with sole_run(files, (output, checkpoint)):     # a lock, which ends with the process
        OwnState(files, folder)                     # a ``JobState``: records, each made once, and milestones

A state that was cut or damaged must never be read as another one: messages would be lost or duplicated
without an error.

Only folders of this machine are locked. Elsewhere a second run is noticed later by the files that it
makes, each of which is made once (see ``files``). On a local disk the file ``lock`` has a line for each
milestone. Other file systems cannot append, so each milestone is a file of its own.

ZooKeeper cannot prove that a partition of 0.7 is gone: while its broker is down, or its session is
expired, both of its registrations are missing. So a job waits for a partition that it read before. If
it stays missing, that is an error, unless the user says that its broker is gone for good.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from ..cluster import Cluster
from ..errors import BrokersMissingError, KafkaWireError, list_some, printable
from ..model import TopicPartition
from ..options import ReadOptions
from ..options.option import NotAnObject, json_object
from ..planner.batch import covers
from ..regular_files import open_regular
from .files import FileError, FileSystem, file_error, list_numbered, printable_path

T = TypeVar("T")

#: An offset for each partition.
Positions = Mapping[TopicPartition, int]


def name_order(topic_partition: TopicPartition) -> tuple[str, int, int]:
    """The order in which partitions' names read: by broker first, where that is a part of the name."""
    return (
        topic_partition.topic,
        -1 if topic_partition.broker is None else topic_partition.broker,
        topic_partition.partition,
    )


def name_fields(topic_partition: TopicPartition) -> dict[str, Any]:
    """Fields that name a log in a summary: ``broker`` only for 0.7."""
    return {
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        **({} if topic_partition.broker is None else {"broker": topic_partition.broker}),
    }


def group_by_topic(values: Mapping[TopicPartition, T]) -> dict[str, dict[str, T]]:
    """Values, such as offsets, by topic, and by the partition's name there."""
    topics: dict[str, dict[str, T]] = {}
    for partition, value in values.items():
        topics.setdefault(partition.topic, {})[partition.name] = value
    return topics


def iterate_by_partition(topics: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[TopicPartition, Any]]:
    """The reverse. Raises ``ValueError`` for a key that names no partition."""
    for topic, partitions in topics.items():
        for name, value in partitions.items():
            broker, _, partition = name.rpartition("-")
            yield TopicPartition(topic, int(partition), int(broker) if broker else None), value


def list_assigned(partitions: Iterable[TopicPartition]) -> dict[str, list[Any]]:
    """Logs as the option ``assign`` names them."""
    topics: dict[str, list[Any]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.name if tp.broker is not None else tp.partition)
    return topics


#: Partitions that an error names.
_NAMES_COUNT_MAX: Final = 5


class ExpectedPartitions:
    """Partitions that a run knows: the ``known`` partitions, as far as the options select their topics."""

    def __init__(
        self, options: ReadOptions, known: Iterable[TopicPartition], gone_brokers: Collection[int] = ()
    ) -> None:
        self._gone_brokers = gone_brokers
        self._known = sorted({tp for tp in known if covers(options.selection, tp.topic)})

    def await_brokers(self, cluster: Cluster) -> None:
        """Wait for the brokers of all these partitions, except those that are gone for good.

        Raises ``BrokersMissingError`` if a broker stays missing, unless the options accept data loss.
        """
        try:
            cluster.await_partitions([tp for tp in self._known if not self.is_given_up(tp)])
        except BrokersMissingError as error:
            raise error.advise(
                "earlier runs, or the group, have read its partitions; if it is gone for good, give "
                "--gone-broker"
            ) from error

    def is_given_up(self, partition: TopicPartition) -> bool:
        """True if the user says that the partition's broker is gone for good."""
        return partition.broker is not None and partition.broker in self._gone_brokers

    def missing(self, found: Collection[TopicPartition]) -> list[TopicPartition]:
        """Known partitions that were not found."""
        there = set(found)
        return [tp for tp in self._known if tp not in there]


def missing_lines(
    partitions: Collection[TopicPartition], positions: Mapping[TopicPartition, int]
) -> list[str]:
    """A line for each partition that is skipped."""
    return [
        f"{tp} is not there: it was read up to {positions[tp]}"
        if tp in positions
        else f"{tp} is not there: the group has read it"
        for tp in partitions
    ]


def missing_text(missing: Collection[TopicPartition]) -> str:
    """The text of an error about missing partitions."""
    named = list_some(sorted(missing), _NAMES_COUNT_MAX)
    return f"{named}: earlier runs or the group have read it, and no broker has it now"


_PRODUCT: Final = "spark-kafkawire"
_FORMAT: Final = "format"
_CHECKSUM: Final = "sha256"


class StateError(KafkaWireError):
    """A file that a job remembers something in is damaged, missing, or another one's. Fatal."""


class BrokenSeal(ValueError):
    """A defect of a text. It never leaves the package: the reader of the file adds its name."""


@dataclass(frozen=True, slots=True)
class StateFormat:
    """A format of state files.

    ``layout`` is written into each file; its number changes with the layout of the content.
    ``name`` is the kind of file in errors, ``advice`` the next step for one that is damaged or missing.
    """

    layout: str
    name: str
    advice: str

    def seal(self, content: Mapping[str, Any]) -> str:
        """The text of a file."""
        fields = {_FORMAT: f"{_PRODUCT} {self.layout}", **content}
        return json.dumps({**fields, _CHECKSUM: _checksum(fields)}, indent=1) + "\n"

    def unseal(self, text: str) -> dict[str, Any]:
        """The content of a file's text. Raises ``BrokenSeal`` for any other text."""
        try:
            fields = json_object(text)
        except NotAnObject as error:
            raise BrokenSeal(str(error)) from error
        # A later layout may have another checksum, so the layout is checked first.
        if fields.get(_FORMAT) != (wanted := f"{_PRODUCT} {self.layout}"):
            raise BrokenSeal(f"its format is {printable(fields.get(_FORMAT))}, and not {wanted}")
        if fields.pop(_CHECKSUM, None) != _checksum(fields):
            raise BrokenSeal("its checksum does not match its text")
        del fields[_FORMAT]
        return fields

    def read(self, text: str, path: str, parse: Callable[[dict[str, Any]], T]) -> T:
        """The result of ``parse`` for the content of the file at ``path``.

        ``parse`` may raise ``BrokenSeal`` for a content that is another file's. Raises ``StateError`` for
        that, for a text that is damaged, and for a content that ``parse`` fails with.
        """
        try:
            return parse(self.unseal(text))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            why = str(error)
            if not isinstance(error, BrokenSeal):
                why = f"it is of another layout ({printable(f'{type(error).__name__}: {error}')})"
            raise self.error(f"{printable_path(path)} is not {self.name}, or damaged: {why}") from error

    def error(self, what: str) -> StateError:
        """The error with the text ``what``, followed by the advice."""
        return StateError(f"{what}; {self.advice}")


def _checksum(fields: Mapping[str, Any]) -> str:
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


#: The file in a folder that is locked.
LOCK: Final = "lock"
#: Errors of file systems without locks.
_NO_LOCKS: Final = frozenset((errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL))


@contextlib.contextmanager
def sole_run(files: FileSystem, folders: Iterable[str]) -> Iterator[None]:
    """Lock the folders. Raises ``FileError`` (fatal) if another run works in one of them."""
    with contextlib.ExitStack() as stack:
        for folder in dict.fromkeys(folders):
            files.make_folder(folder)
            path = files.local_path(folder)
            if path is not None:
                _lock(stack, Path(path, LOCK))
        yield


def _lock(stack: contextlib.ExitStack, path: Path) -> None:
    try:
        file = stack.enter_context(open_regular(path, append=True))
    except OSError as error:
        raise file_error("write", path, error) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise FileError(
            f"{printable_path(str(path.parent))}: another run is active here; wait until it ends"
        ) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise file_error("lock", path, error) from error


#: The end of an error about a record that a milestone says exists.
RECORDED: Final = ", and the folder records that it existed"


class Milestone(enum.Enum):
    """Milestones that a state has reached."""

    #: There is a record.
    BEGUN = "begun"
    #: There is the record of the end.
    DONE = "done"


class JobState:
    """The records in a folder: sealed files of one format, each made in one step, and their milestones.

    All methods raise ``FileError``, and ``StateError`` for a record that is damaged or missing (both fatal).
    """

    form: ClassVar[StateFormat]

    def __init__(self, files: FileSystem, folder: str) -> None:
        self._files = files
        self._folder = folder

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _show(self, name: str) -> str:
        return printable_path(self._path(name))

    def _has(self, name: str) -> bool:
        return self._files.exists(self._path(name))

    def _list_numbered(self, pattern: str) -> list[tuple[int, str]]:
        return list_numbered(self._files, self._folder, pattern)

    def _create(self, name: str, content: Mapping[str, Any], milestone: Milestone | None = None) -> None:
        """Make a new record, and then note its milestone."""
        self._files.create(self._path(name), self.form.seal(content))
        if milestone is not None:
            self.reach(milestone)

    def _read(self, name: str, parse: Callable[[dict[str, Any]], T]) -> T:
        path = self._path(name)
        return self.form.read(self._files.read(path), path, parse)

    def _read_of(self, milestone: Milestone, name: str, parse: Callable[[dict[str, Any]], T]) -> T | None:
        """The record of a milestone; None before it."""
        if not self._has(name):
            self._check_never(milestone, name, f" is missing{RECORDED}")
            return None
        result = self._read(name, parse)
        self.reach(milestone)
        return result

    def _check_never(self, milestone: Milestone, name: str, lost: str) -> None:
        """Raise ``StateError`` with the text ``lost`` about a record if the milestone was reached."""
        if self._has_reached(milestone):
            raise self.form.error(f"{self._show(name)}{lost}")

    def reach(self, milestone: Milestone) -> None:
        """Note a milestone, once; it is on the disk when this returns."""
        if self._has_reached(milestone):
            return
        line = f"{milestone.value}\n"
        local = self._files.local_path(self._folder)
        if local is None:
            self._files.create(self._path(milestone.value), line)
            return
        lock = Path(local, LOCK)
        try:
            with open_regular(lock, append=True) as file:
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise file_error("write", lock, error) from error

    def _has_reached(self, milestone: Milestone) -> bool:
        if self._files.local_path(self._folder) is None:
            return self._has(milestone.value)
        return self._has(LOCK) and milestone.value in self._files.read(self._path(LOCK))
