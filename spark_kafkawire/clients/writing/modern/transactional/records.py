"""The texts that groups keep about a write: what a task's rows are of, and what was decided of a whole write.

Both are JSON beside a group's offset. What does not read so is another program's, and an error: what it
would say is not guessed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from .....cluster.modern.transactions import Transaction
from .....errors import OptionError, quoted
from .names import suffix_of
from .requests import Record

#: Transactions of one record: with its rest less than 4096 bytes, which brokers take beside an offset
#: (``offset.metadata.max.bytes``).
OPEN_COUNT_MAX: Final = 40
#: What to do about a batch that is not what it was.
OTHER_ROWS: Final = (
    "these are other rows, or partitioned otherwise; give another write another option batch, or another "
    "kafka.transactional.id"
)


@dataclass(frozen=True, slots=True)
class BatchId:
    """Which rows a write is about: a name of the user's; or a query, and the number of a batch in it."""

    name: str
    number: int = 0
    is_stream: bool = False

    def __str__(self) -> str:
        return f"{quoted(self.name)} {self.number}" if self.is_stream else quoted(self.name)

    def fault_after(self, last: BatchId) -> str | None:
        """Why this is not to be written after another one with the same kafka.transactional.id; None where it
        is. A query goes on where it was: nobody could tell what it writes twice after others."""
        if self.name != last.name and (self.is_stream or last.is_stream):
            return (
                f"batch {self} is of another query or write than batch {last}, which was committed with this "
                "kafka.transactional.id; choose one for each query: a new checkpoint makes a new query"
            )
        if self.name == last.name and self.number < last.number:
            return (
                f"batch {self} is older than batch {last}, which is committed: its checkpoint was set back; "
                "go on with the newer one, or choose another kafka.transactional.id, which writes the batches"
                " between again"
            )
        return None


@dataclass(frozen=True, slots=True)
class HeldBatch:
    """What a task wrote last: a batch, and how many rows with how many bytes of keys and values."""

    batch: BatchId
    rows: int
    size: int

    def record(self) -> Record:
        """As its group keeps it."""
        batch = {"batch": self.batch.name, "stream": self.batch.is_stream}
        return Record(self.batch.number, text_of(**batch, rows=self.rows, bytes=self.size))

    @classmethod
    def of(cls, record: Record, group: str) -> HeldBatch:
        """Read a record. Raises ``OptionError`` (fatal) for one that is none of ours."""
        numbers = (("rows", int), ("bytes", int))
        content = content_of(record, group, ("batch", str), ("stream", bool), *numbers)
        batch = BatchId(content["batch"], record.number, content["stream"])
        return cls(batch, content["rows"], content["bytes"])


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided of a write of ``tasks`` tasks, ``busy`` of which had rows: to commit those that are
    ``open``; none where it is done. ``serial`` counts the records of a name."""

    serial: int
    batch: BatchId
    tasks: int
    busy: int
    open: tuple[Transaction, ...] = ()
    #: Beside whose partition 0 it is kept: brokers keep offsets of topics that are there only.
    topic: str = ""
    #: The first of its transactions: whose decision it was, also where it is done.
    first: str = ""
    #: How many of its transactions could not be committed any more, where others were.
    lost: int = 0

    @property
    def is_done(self) -> bool:
        """Whether all its transactions are committed."""
        return not self.open and not self.lost

    def fault_before(self, batch: BatchId | None) -> str | None:
        """Why a batch is not to be written after this; None where it may be. ``batch`` is None of one without
        tasks, which nobody told of."""
        if self.batch != batch and self.lost:
            return (
                f"batch {self.batch} was committed in part, and {self.lost} of its transactions had timed "
                "out before the rest was; run that write again, with the same rows and name: what is there is"
                " not written twice. Or choose another kafka.transactional.id"
            )
        return batch.fault_after(self.batch) if batch else None

    def fault_again(self, tasks: int, busy: int, open_count: int) -> str | None:
        """Why what the same batch wrote when it was run again is not to be committed; None where it is.

        A task whose rows were there already has compared them. One that has no rows now compared nothing:
        they may be another's, which are to be written then although they are there.
        """
        if tasks != self.tasks:
            fault = f"was begun by {self.tasks} task(s), and now there are {tasks}"
        elif open_count > self.lost:
            already = f"but for {self.lost} task(s)" if self.lost else "already"
            fault = f"is committed {already}, and {open_count} task(s) have more rows"
        elif busy != self.busy:
            fault = f"had rows in {self.busy} task(s), and now in {busy}"
        else:
            return None
        return f"batch {self.batch} {fault}; {OTHER_ROWS}"

    def may_hold(self, batch: BatchId) -> bool:
        """Whether tasks are to look what they hold: rows of the batch may be there; or it is not to be
        written after this, which the driver would find when all is sent. Nothing is committed before a
        decision about it, and after a later one it is another write."""
        return batch == self.batch or batch.fault_after(self.batch) is not None

    def finished(self, lost: int) -> Decision:
        """The decision after all its transactions were ended, but for those that are lost."""
        return replace(self, serial=self.serial + 1, open=(), lost=lost)

    def records(self, prefix: str) -> tuple[Record, ...]:
        """As the driver's groups keep it: one, and another one for each further ``OPEN_COUNT_MAX`` of its
        transactions."""
        parts = [self.open[at : at + OPEN_COUNT_MAX] for at in range(0, len(self.open), OPEN_COUNT_MAX)]
        return tuple(
            Record(
                self.serial,
                text_of(
                    batch=self.batch.name,
                    number=self.batch.number,
                    stream=self.batch.is_stream,
                    tasks=self.tasks,
                    busy=self.busy,
                    parts=max(len(parts), 1),
                    open=[
                        [suffix_of(each.id, prefix), each.producer_id, each.epoch, each.version]
                        for each in part
                    ],
                    topic=self.topic,
                    first=self.first,
                    lost=self.lost,
                ),
            )
            for part in parts or [()]
        )

    @classmethod
    def of(cls, records: tuple[Record, ...], prefix: str, group: str) -> Decision:
        """Read the records of all parts. Raises ``OptionError`` (fatal) for what is none of ours."""
        contents = [_decision_content(record, group) for record in records]
        first = contents[0]
        open_ = tuple(
            Transaction(f"{prefix}-{suffix}", producer_id, epoch, version)
            for content in contents
            for suffix, producer_id, epoch, version in content["open"]
        )
        batch = BatchId(first["batch"], first["number"], first["stream"])
        counts = first["tasks"], first["busy"]
        return cls(records[0].number, batch, *counts, open_, first["topic"], first["first"], first["lost"])


def parts_of(record: Record, group: str) -> int:
    """How many records a decision has, by its first one."""
    parts: int = _decision_content(record, group)["parts"]
    return parts


def _decision_content(record: Record, group: str) -> dict[str, Any]:
    numbers = [(name, int) for name in ("number", "tasks", "busy", "parts", "lost")]
    texts = [(name, str) for name in ("batch", "topic", "first")]
    content = content_of(record, group, *texts, *numbers, ("stream", bool), ("open", list))
    if not all(_is_transaction(each) for each in content["open"]):
        raise _foreign(record, group)
    return content


def _is_transaction(entry: object) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 4
        and isinstance(entry[0], str)
        and all(isinstance(number, int) for number in entry[1:])
    )


def text_of(**content: object) -> str:
    """What a group keeps beside an offset."""
    return json.dumps({"kafkawire": 1, **content}, separators=(",", ":"))


def content_of(record: Record, group: str, *fields: tuple[str, type]) -> dict[str, Any]:
    """The same, read back, with fields of these types. Raises ``OptionError`` (fatal) for what is none of
    ours."""
    try:
        content = json.loads(record.text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("kafkawire") != 1:
        raise _foreign(record, group)
    if not all(type(content.get(name)) is kind for name, kind in fields):
        raise _foreign(record, group)
    return content


def _foreign(record: Record, group: str) -> OptionError:
    return OptionError(
        f"option kafka.transactional.id: group {quoted(group)} holds an offset that another program "
        f"committed, or another version of this one ({quoted(record.text)}); choose one that nobody else has"
    )


def each_group(group: str, count: int) -> Iterator[str]:
    """The groups that keep the parts of a decision."""
    yield group
    for part in range(1, count):
        yield f"{group}.{part}"
