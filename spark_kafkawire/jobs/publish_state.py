"""What ``publish`` remembers in its state directory.

    publication.json   which rows go where: decided before anything is sent
    run-0.json         where the logs ended when run 0 had not sent anything yet
    run-1.json ...     the same of the runs after it
    done.json          all rows are in the topic; what became of them

Each file is made in one step and never changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

from ..errors import CorruptDataError, OptionError, quoted, shown
from .hadoop_files import Files
from .positions import Positions, by_log, by_topic

T = TypeVar("T")

#: Says what the files are, and changes with their layout.
_FORMAT: Final = "spark-kafkawire publish 1"


@dataclass(frozen=True, slots=True)
class TopicRows:
    """How many rows go to a topic, and a checksum of them that does not depend on their order."""

    count: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Publication:
    """All rows, by topic, and the cluster that they go to."""

    target: str
    topics: Mapping[str, TopicRows]

    @property
    def count(self) -> int:
        """All rows."""
        return sum(rows.count for rows in self.topics.values())

    def check(self, given: Publication, folder: str) -> None:
        """Raise ``OptionError`` (fatal) where what is given now is another publication."""
        place = f"argument --state: {folder} was begun"
        if given.target != self.target:
            raise OptionError(f"{place} for {self.target}, not for {given.target}; give another directory")
        for topic in {**self.topics, **given.topics}:
            before, now = self.topics.get(topic), given.topics.get(topic)
            if before != now:
                raise OptionError(
                    f"{place} with {_shown(before)} for topic {quoted(topic)}, now there are "
                    f"{_shown(now, than=before)}: the input or an argument has changed; give what it was "
                    "begun with, or another directory"
                )


@dataclass(frozen=True, slots=True)
class Done:
    """How a publication ended: its rows, and how many messages like them are there too often."""

    messages: int
    messages_doubled: int


class PublishState:
    """The directory. Raises ``FileError``, and ``CorruptDataError`` for files of others (fatal)."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder

    def begin(self, given: Publication) -> None:
        """Remember what is published. Raises ``OptionError`` where that is something else already."""
        path = f"{self._folder}/publication.json"
        if self._files.exists(path):
            self._load(path, _publication).check(given, self._folder)
            return
        self._files.make_folder(self._folder)
        topics = {topic: [rows.count, rows.checksum] for topic, rows in given.topics.items()}
        self._save(path, {"target": given.target, "topics": topics})

    def begin_run(self, ends: Positions) -> None:
        """Remember where all logs end that this run may write to. Raises ``FileError`` where another
        run begins at the same time."""
        self._save(f"{self._folder}/run-{self.run_count}.json", {"ends": by_topic(ends)})

    @property
    def run_count(self) -> int:
        """Runs that have begun."""
        return sum(
            re.fullmatch(r"run-\d+\.json", name) is not None for name in self._files.names(self._folder)
        )

    def starts(self) -> Positions:
        """For each log where it ended before the first run that may have written to it."""
        starts: Positions = {}
        for number in range(self.run_count):
            ends = self._load(
                f"{self._folder}/run-{number}.json", lambda content: dict(by_log(content["ends"]))
            )
            starts = {**ends, **starts}
        return starts

    def finish(self, done: Done) -> None:
        """Remember that all rows are there."""
        self._save(f"{self._folder}/done.json", asdict(done))

    def done(self) -> Done | None:
        """How the publication ended, None where it has not."""
        path = f"{self._folder}/done.json"
        if not self._files.exists(path):
            return None
        return self._load(path, lambda content: Done(content["messages"], content["messages_doubled"]))

    def _save(self, path: str, content: Mapping[str, Any]) -> None:
        self._files.write(path, json.dumps({"format": _FORMAT, **content}))

    def _load(self, path: str, parse: Callable[[Any], T]) -> T:
        text = self._files.read(path)
        try:
            content = json.loads(text)
            if content["format"] != _FORMAT:
                raise ValueError(content["format"])
            return parse(content)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise CorruptDataError(
                f"{shown(path)} is not of a publication, or damaged; give another --state"
            ) from error


def _publication(content: Any) -> Publication:
    topics = {
        topic: TopicRows(int(count), str(checksum)) for topic, (count, checksum) in content["topics"].items()
    }
    return Publication(str(content["target"]), topics)


def _shown(rows: TopicRows | None, than: TopicRows | None = None) -> str:
    if rows is None or not rows.count:
        return "no rows"
    other = "other " if than is not None and than.count == rows.count else ""
    return f"{rows.count:,} {other}row{'s' * (rows.count > 1)}"
