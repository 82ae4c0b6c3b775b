"""State directory of the job ``publish``, for brokers of both generations.

    publication.json   the rows and their topics: decided before anything is sent
    run-0.json         the ends of the partitions before run 0 sent anything
    run-1.json ...     the same of the runs after it
    begun-0.json ...   run 0 sends from now on: proves that run-0.json was written
    done.json          all rows are in the topic; the result
    lock               says that publication.json was written, and in the end done.json (``Milestone``)

Each file is made in one step and never changes, has a checksum, and names the publication. A file that is
missing or belongs to another publication is an error: without the ends of a run, or the name of its
transactions, its rows would be written again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

from spark_kafkawire.errors import OptionError, plural, quote

from ..state import (
    BrokenSeal,
    JobState,
    Milestone,
    Positions,
    StateFormat,
    group_by_topic,
    iterate_by_partition,
)

T = TypeVar("T")

_PUBLICATION: Final = "publication.json"
_DONE: Final = "done.json"
_RUNS: Final = r"(?:run|begun)-([0-9]+)\.json"


@dataclass(frozen=True, slots=True)
class TopicRows:
    """Number of rows that go to a topic, and a checksum of them that does not depend on their order."""

    count: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Publication:
    """All rows, by topic, and the cluster that they go to. ``transactional_id`` is None where rows are
    compared, and else the name of the write, empty where the state names it."""

    target: str
    topics: Mapping[str, TopicRows]
    transactional_id: str | None = None

    @property
    def count(self) -> int:
        """All rows."""
        return sum(rows.count for rows in self.topics.values())

    def check(self, given: Publication, folder: str) -> None:
        """Raise ``OptionError`` (fatal) if the arguments now are those of another publication."""
        place = f"argument --state: {folder} was begun"
        if given.target != self.target:
            raise OptionError(f"{place} for {self.target}, not for {given.target}; give another directory")
        if given.transactional_id != self.transactional_id:
            raise OptionError(
                f"{place} {_way(self.transactional_id)}, not {_way(given.transactional_id)}; continue that "
                "way, or give another directory"
            )
        for topic in {**self.topics, **given.topics}:
            before, now = self.topics.get(topic), given.topics.get(topic)
            if before != now:
                raise OptionError(
                    f"{place} with {_rows_text(before)} for topic {quote(topic)}, now there are "
                    f"{_rows_text(now, than=before)}: the input or an argument has changed; give what it was "
                    "begun with, or another directory"
                )


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a publication: its rows, and the number of duplicate messages."""

    messages: int
    messages_doubled: int


class PublishState(JobState):
    """The directory; a file of another publication is an error. ``begin`` comes first."""

    form = StateFormat(
        layout="publish 2",
        name="of a publication",
        advice="put the file back as it was; without it a run cannot know what is in the topic already, and "
        "another --state writes all rows again",
    )
    _id = ""

    def begin(self, given: Publication) -> None:
        """Record the publication. Raises ``OptionError`` if the state holds another one."""
        others = [name for _, name in self._list_numbered(_RUNS)] + ([_DONE] if self._has(_DONE) else [])
        if others and not self._has(_PUBLICATION):
            raise self.form.error(f"{self._show(_PUBLICATION)} is missing, and {others[0]} is there")
        begun = self._read_of(Milestone.BEGUN, _PUBLICATION, _publication)
        if begun is not None:
            begun.check(given, self._folder)
            return
        self._files.make_folder(self._folder)
        topics = {topic: [rows.count, rows.checksum] for topic, rows in given.topics.items()}
        self._id = uuid.uuid4().hex
        named = {} if given.transactional_id is None else {"transactional_id": given.transactional_id}
        self._create(_PUBLICATION, {"target": given.target, "topics": topics, **named}, Milestone.BEGUN)

    @property
    def transactional_id(self) -> str:
        """A name for the write that no other publication has."""
        return f"kafkawire-publish-{self._id}"

    def begin_run(self, ends: Positions) -> int:
        """Record the ends of all partitions that this run may write to. Returns the number of the run. Raises
        ``FileError`` if another run begins at the same time."""
        number = self.run_count
        self._create(f"run-{number}.json", {"ends": group_by_topic(ends)})
        self._create(f"begun-{number}.json", {})
        return number

    @property
    def run_count(self) -> int:
        """Runs that have begun."""
        return 1 + max((number for number, _ in self._list_numbered(_RUNS)), default=-1)

    def starts(self) -> Positions:
        """The end of each partition before the first run that may have written to it."""
        starts: Positions = {}
        for number in range(self.run_count):
            if not self._has(name := f"run-{number}.json"):
                raise self.form.error(f"{self._show(name)} is missing, and a later run has begun")
            starts = {
                **self._read(name, lambda content: dict(iterate_by_partition(content["ends"]))),
                **starts,
            }
        return starts

    def finish(self, done: Done) -> None:
        """Record that all rows are in the topic; does nothing if another run has recorded it."""
        if self.done() is None:
            self._create(_DONE, asdict(done), Milestone.DONE)

    def done(self) -> Done | None:
        """The result of the publication, None if it is unfinished."""
        return self._read_of(
            Milestone.DONE, _DONE, lambda result: Done(result["messages"], result["messages_doubled"])
        )

    def _create(self, name: str, content: Mapping[str, Any], milestone: Milestone | None = None) -> None:
        super()._create(name, {"publication": self._id, "file": name, **content}, milestone)

    def _read(self, name: str, parse: Callable[[dict[str, Any]], T]) -> T:
        def own(content: dict[str, Any]) -> T:
            self._id = self._id or content["publication"]
            if (content["publication"], content["file"]) != (self._id, name):
                raise BrokenSeal("it is of another publication or run")
            return parse(content)

        return super()._read(name, own)


def _publication(content: Any) -> Publication:
    topics = {
        topic: TopicRows(int(count), str(checksum)) for topic, (count, checksum) in content["topics"].items()
    }
    return Publication(str(content["target"]), topics, content.get("transactional_id"))


def _way(transactional_id: str | None) -> str:
    if transactional_id is None:
        return "without --exactly-once"
    return f"with --transactional-id {quote(transactional_id)}" if transactional_id else "with --exactly-once"


def _rows_text(rows: TopicRows | None, than: TopicRows | None = None) -> str:
    if rows is None or not rows.count:
        return "no rows"
    other = "other " if than is not None and than.count == rows.count else ""
    return f"{rows.count:,} {other}{plural(rows.count, 'row')}"
