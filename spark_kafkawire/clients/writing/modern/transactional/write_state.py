"""State of an exactly-once write that brokers of modern Kafka keep: transactional ids, groups and offsets.

A task's group keeps the batch that the task committed last, the driver's group keeps the last decision. Both
are JSON in the metadata of a committed offset. Metadata that does not parse belongs to another program and is
an error.

A name may extend another one, as "orders-1" extends "orders". So the part after a name has a fixed number of
dashes: none in a group and in a driver's id, one in an attempt's id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from spark_kafkawire.cluster.modern.group_offsets import committed_texts
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transaction
from spark_kafkawire.errors import DeliveryError, OptionError, list_some, quote
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import NetOptions

#: Name of a run in the id of an attempt: the driver's producer id and epoch, or the run's id in Spark and a
#: parity.
_RUN: Final = "[0-9A-Za-z]+[.][0-9]+"
#: Id of the driver or of an attempt, after the name of the write.
_OF_WRITE: Final = re.compile(rf"(.+)-(?:driver|[0-9]+-{_RUN}[.][0-9]+)", re.DOTALL)
#: Transactions in one record, which keeps it below the 4096 bytes of metadata that brokers accept
#: (``offset.metadata.max.bytes``).
OPEN_COUNT_MAX: Final = 40
#: Topics that keep a decision: those of a write that are deleted do not drop it while another one is left.
TOPIC_COUNT_MAX: Final = 16
#: Topics that an error names.
_NAMED_MAX: Final = 3
#: Advice for a batch whose rows differ from those that are committed.
OTHER_ROWS: Final = (
    "these are other rows, or partitioned otherwise; give another write another option batch, or another "
    "kafka.transactional.id"
)


def driver_id(prefix: str) -> str:
    """Transactional id of the driver, and the group of its decisions. No attempt has this id: an attempt's id
    has numbers where this one has a word."""
    return f"{prefix}-driver"


def attempt_id(prefix: str, task: int, attempt: str) -> str:
    """Transactional id of one attempt of a task. ``attempt`` is the name of a run, a dot and a number. No
    other attempt of any run has the same id at the same time, so a late attempt cannot end a transaction that
    the driver is about to commit."""
    return f"{prefix}-{task}-{attempt}"


def attempt_ids(prefix: str, run: str | None = None) -> str:
    """Pattern of the transactional ids of all attempts, or of the attempts of one run."""
    return f"{re.escape(prefix)}-[0-9]+-{_RUN if run is None else re.escape(run)}[.][0-9]+"


def task_group(prefix: str, task: int) -> str:
    """Group that keeps the batch which a task committed last."""
    return f"{prefix}-{task}"


def write_of_id(transactional_id: str) -> str | None:
    """Name of the write that a transactional id belongs to, by its form; None for ids of other programs."""
    match = _OF_WRITE.fullmatch(transactional_id)
    return match[1] if match else None


def decision_groups(group: str, count: int) -> Iterator[str]:
    """Groups that keep the parts of a decision."""
    yield group
    for part in range(1, count):
        yield f"{group}.{part}"


def partitions_of_offsets(metadata: Metadata) -> tuple[TopicPartition, ...]:
    """Partitions whose offsets may keep the state of a write, by a request for all topics."""
    return tuple(TopicPartition(topic.name, 0) for topic in metadata.topics())


@dataclass(frozen=True, slots=True, order=True)
class OffsetAndMetadata:
    """Committed offset of a group in a topic, and the metadata beside it."""

    offset: int
    metadata: str
    topic: str = ""


@dataclass(frozen=True, slots=True)
class BatchId:
    """Identity of the rows of a write: the option ``batch``, or a query and the number of a batch in it."""

    name: str
    number: int = 0
    is_stream: bool = False

    def __str__(self) -> str:
        return f"{quote(self.name)} {self.number}" if self.is_stream else quote(self.name)

    def fault_after(self, last: BatchId) -> str | None:
        """Reason why this batch must not follow ``last`` under the same kafka.transactional.id; None if it
        may. A query continues where it stopped: after another query or write, it is not known which rows it
        writes twice."""
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
class CommittedBatch:
    """Batch that a task committed last: its rows, the bytes of their keys and values, the checksum of their
    content (see ``records.rows``), and the ids of their topics by name, sorted ("" without ids).

    ``serial`` is that of the decision about it: the group keeps records of earlier batches in other topics.
    """

    batch: BatchId
    rows: int
    size: int
    content: int
    serial: int
    topics: tuple[tuple[str, str], ...] = ()

    def records(self) -> tuple[OffsetAndMetadata, ...]:
        """Encode as the task's group keeps it: one record in each topic."""
        batch = {"batch": self.batch.name, "stream": self.batch.is_stream}
        counts = {"rows": self.rows, "bytes": self.size, "content": self.content, "serial": self.serial}
        return tuple(
            OffsetAndMetadata(self.batch.number, encode_metadata(**batch, **counts, id=id_), topic)
            for topic, id_ in self.topics
        )

    @classmethod
    def of(cls, record: OffsetAndMetadata, group: str) -> CommittedBatch:
        """Decode a record. Raises ``OptionError`` (fatal) for a record of another program."""
        numbers = [(name, int) for name in ("rows", "bytes", "content", "serial")]
        fields = (("batch", str), ("stream", bool), ("id", str), *numbers)
        content = decode_metadata(record, group, *fields)
        batch = BatchId(content["batch"], record.offset, content["stream"])
        rows, size, checksum, serial = (content[name] for name, _ in numbers)
        return cls(batch, rows, size, checksum, serial, ((record.topic, content["id"]),))

    @classmethod
    def last(cls, records: Iterable[OffsetAndMetadata], group: str) -> CommittedBatch | None:
        """Decode the records of all topics; None without one. Raises as ``of``."""
        if not (result := [cls.of(record, group) for record in records]):
            return None
        last = max(result, key=lambda item: (item.serial, item.batch.number))
        same = (item for item in result if (item.batch, item.serial) == (last.batch, last.serial))
        return replace(last, topics=tuple(sorted(topic for item in same for topic in item.topics)))

    def difference(self, now: CommittedBatch) -> str | None:
        """Difference of the same batch that a task has now, as the part of a sentence; None if it is the
        same."""
        ids, ids_now = dict(self.topics), dict(now.topics)
        if ids != ids_now:
            again = [topic for topic in ids.keys() & ids_now.keys() if ids[topic] != ids_now[topic]]
            if again:
                return f"in {_topics(again)} of other ids, which were deleted and made again since"
            return other_topics(ids, ids_now)
        if (self.rows, self.size) != (now.rows, now.size):
            return (
                f"with {self.rows} row(s) of {self.size} bytes, and now the task has {now.rows} row(s) of "
                f"{now.size} bytes"
            )
        if self.content != now.content:
            return (
                "with as many rows and bytes, but another content: keys, values, headers, topics of rows, "
                "or partitions that rows name"
            )
        return None


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision to commit a write of ``tasks`` tasks; ``busy`` counts the tasks with rows.

    ``open`` are the transactions to commit, empty once the write is done. ``serial`` numbers the decisions of
    a name."""

    serial: int
    batch: BatchId
    tasks: int
    busy: int
    open: tuple[Transaction, ...] = ()
    #: Topics of the offsets that keep it: brokers accept offsets of existing topics only, and drop those of
    #: deleted ones.
    topics: tuple[str, ...] = ()
    #: Number of topics that the write has.
    topic_count: int = 0
    #: Id of its first transaction, which identifies the run also when ``open`` is empty.
    first: str = ""
    #: Number of its transactions that had ended before they could be committed.
    lost: int = 0

    @property
    def is_done(self) -> bool:
        """True if all its transactions are committed."""
        return not self.open and not self.lost

    @property
    def loss(self) -> str:
        """Outcome of a write that has ``lost`` transactions, as the part of a sentence after its name."""
        if self.lost < self.busy:
            what = f"in part: {self.lost} of its {self.busy} transactions had timed out before they were"
            return f"is there {what} committed"
        if self.lost == 1:
            return "is not there: its only transaction had timed out before it was committed"
        return f"is not there: all {self.lost} of its transactions had timed out before they were committed"

    def fault_before(self, batch: BatchId | None) -> str | None:
        """Reason why a batch must not follow this decision; None if it may. ``batch`` is None for a write
        without tasks."""
        if self.batch != batch and self.lost:
            return (
                f"batch {self.batch} {self.loss}; run that write again, with the same rows and name: what is "
                "there is not written twice. Or choose another kafka.transactional.id"
            )
        return batch.fault_after(self.batch) if batch else None

    def fault_again(self, tasks: int, busy: int, open_count: int, topics: Collection[str] = ()) -> str | None:
        """Reason why a second run of the same batch must not be committed; None if it may.

        A task whose rows were committed already has compared them. A task without rows has compared none:
        its rows may have moved to another task, which would write them a second time.
        """
        if self.topic_count <= TOPIC_COUNT_MAX and busy and set(topics) != set(self.topics):
            fault = f"is committed already, {other_topics(self.topics, topics)}"
        elif tasks != self.tasks:
            fault = f"was begun by {self.tasks} task(s), and now there are {tasks}"
        elif open_count > self.lost:
            already = f"except for {self.lost} task(s)" if self.lost else "already"
            fault = f"is committed {already}, and {open_count} task(s) have more rows"
        elif busy != self.busy:
            fault = f"had rows in {self.busy} task(s), and now in {busy}"
        else:
            return None
        return f"batch {self.batch} {fault}; {OTHER_ROWS}"

    def may_be_committed(self, batch: BatchId) -> bool:
        """Return whether tasks must look up the batch that they committed last.

        Rows of the batch may be committed, or the batch must not follow this decision, which the driver would
        find only after all rows are sent. Before a decision about the batch no row of it is committed, and
        after a later one it is another write."""
        return batch == self.batch or batch.fault_after(self.batch) is not None

    def finished(self, lost: int) -> Decision:
        """Return the decision after all its transactions were ended, except for ``lost`` ones."""
        return replace(self, serial=self.serial + 1, open=(), lost=lost)

    def records(self, prefix: str) -> tuple[OffsetAndMetadata, ...]:
        """Encode as the driver's groups keep it: one record, and another one for each further
        ``OPEN_COUNT_MAX`` transactions."""
        parts = [self.open[at : at + OPEN_COUNT_MAX] for at in range(0, len(self.open), OPEN_COUNT_MAX)]
        return tuple(
            OffsetAndMetadata(
                self.serial,
                encode_metadata(
                    batch=self.batch.name,
                    number=self.batch.number,
                    stream=self.batch.is_stream,
                    tasks=self.tasks,
                    busy=self.busy,
                    parts=max(len(parts), 1),
                    open=[
                        [item.id.removeprefix(f"{prefix}-"), item.producer_id, item.epoch, item.version]
                        for item in part
                    ],
                    topics=self.topic_count,
                    first=self.first,
                    lost=self.lost,
                ),
            )
            for part in parts or [()]
        )

    @classmethod
    def of(
        cls, records: tuple[OffsetAndMetadata, ...], prefix: str, group: str, topics: tuple[str, ...] = ()
    ) -> Decision:
        """Decode a record of each part; ``topics`` keep them. Raises ``OptionError`` (fatal) for records of
        another program."""
        contents = [_decision_content(record, group) for record in records]
        first = contents[0]
        open_ = tuple(
            Transaction(f"{prefix}-{suffix}", producer_id, epoch, version)
            for content in contents
            for suffix, producer_id, epoch, version in content["open"]
        )
        return cls(
            serial=records[0].offset,
            batch=BatchId(first["batch"], first["number"], first["stream"]),
            tasks=first["tasks"],
            busy=first["busy"],
            open=open_,
            topics=topics,
            topic_count=first["topics"],
            first=first["first"],
            lost=first["lost"],
        )


def other_topics(before: Iterable[str], now: Iterable[str]) -> str:
    """Difference of the topics of a batch, as the part of a sentence."""
    gone, new = set(before) - set(now), set(now) - set(before)
    if not new:
        return f"to {_topics(gone)} too, for which there are no rows now"
    deleted = "" if gone else ", or that was deleted and made again since"
    to = f"to {_topics(gone)}, and " if gone else ""
    return f"{to}not to {_topics(new)}, for which there are rows now{deleted}"


def _topics(names: Collection[str]) -> str:
    return f"{'topic' if len(names) == 1 else 'topics'} {list_some(sorted(names), _NAMED_MAX, quote)}"


def part_count(record: OffsetAndMetadata, group: str) -> int:
    """Number of records of a decision, by its first record."""
    parts: int = _decision_content(record, group)["parts"]
    return parts


def _decision_content(record: OffsetAndMetadata, group: str) -> dict[str, Any]:
    numbers = [(name, int) for name in ("number", "tasks", "busy", "parts", "lost", "topics")]
    texts = [(name, str) for name in ("batch", "first")]
    content = decode_metadata(record, group, *texts, *numbers, ("stream", bool), ("open", list))
    if not all(_is_transaction(item) for item in content["open"]):
        raise _foreign(record, group)
    return content


def _is_transaction(entry: object) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 4
        and isinstance(entry[0], str)
        and all(isinstance(number, int) for number in entry[1:])
    )


def last_decision(
    metadata: Metadata, net: NetOptions, prefix: str, stable_in: Collection[TopicPartition] | None
) -> Decision | None:
    """Read the last decision of a name without fencing its driver; None if there was none, or brokers have
    deleted it.

    Unless ``stable_in`` is None (see ``committed_texts``), waits for a decision whose transaction is
    committed and that is not visible yet, and for a driver that is deciding. Raises ``OptionError`` (fatal)
    for records of another program, ``DeliveryError`` (fatal) if a driver decides while the parts are read,
    and as ``committed_texts``.
    """
    group = driver_id(prefix)
    first = max(committed_records(metadata, net, group, stable_in), default=None)
    if first is None:
        return None
    others = [
        max(committed_records(metadata, net, item, stable_in), default=None)
        for item in [*decision_groups(group, part_count(first, group))][1:]
    ]
    records = [first, *(item for item in others if item is not None and item.offset == first.offset)]
    if len(records) <= len(others):
        raise DeliveryError(
            f"group {quote(group)} has {len(records)} of {len(others) + 1} parts of decision "
            f"{first.offset}: a driver may be deciding now, or brokers have forgotten some; "
            "run again in a minute"
        )
    return Decision.of(tuple(records), prefix, group)


def committed_records(
    metadata: Metadata, net: NetOptions, group: str, stable_in: Collection[TopicPartition] | None
) -> tuple[OffsetAndMetadata, ...]:
    """Fetch the records of a group in all topics. ``stable_in`` and errors are as in ``committed_texts``."""
    texts = committed_texts(metadata, group, net, stable_in=stable_in)
    return tuple(OffsetAndMetadata(*item) for item in texts)


def write_of_group(group: str, records: Sequence[OffsetAndMetadata]) -> str | None:
    """Read the ``kafka.transactional.id`` of the write that a group belongs to; None for a group of
    consumers.

    The name of a group proves nothing: every offset that the group has committed must have the metadata that
    a group of this name keeps.
    """
    for form, write_of in _KINDS:
        if form.fullmatch(group) is None:
            continue
        try:
            names = {write_of(record, group) for record in records}
        except OptionError:
            return None
        return names.pop() if len(names) == 1 else None
    return None


def may_be_group_of_write(group: str) -> bool:
    """Return whether a write may have a group of this name."""
    return any(form.fullmatch(group) for form, _ in _KINDS)


def _parse_decision_key(record: OffsetAndMetadata, group: str) -> str:
    part_count(record, group)
    return group.rpartition("-")[0]


def _parse_batch_key(record: OffsetAndMetadata, group: str) -> str:
    CommittedBatch.of(record, group)
    return group.rpartition("-")[0]


def _parse_note_key(record: OffsetAndMetadata, group: str) -> str | None:
    """Name of the migration that keeps a note in this group; None if the group is named after another
    partition."""
    fields = (("source", list), ("target", list), ("end", int), ("messages", int))
    content = decode_metadata(record, group, *fields)
    end = "".join(f"-{item}" for item in [*content["target"], "log"])
    return group.removesuffix(end) if group.endswith(end) else None


#: Forms of group names, and the functions that read the name of the write from a record: parts of a decision,
#: batches of a task, notes of a migration. They raise ``OptionError`` for records of another program.
_KINDS: Final[tuple[tuple[re.Pattern[str], Callable[[OffsetAndMetadata, str], str | None]], ...]] = (
    (re.compile(r".+-driver(?:[.][1-9][0-9]*)?", re.DOTALL), _parse_decision_key),
    (re.compile(r".+-[0-9]+", re.DOTALL), _parse_batch_key),
    (re.compile(r".+-.+-[0-9]+-log", re.DOTALL), _parse_note_key),
)


def encode_metadata(**content: object) -> str:
    """Encode fields as the metadata of an offset."""
    return json.dumps({"kafkawire": 1, **content}, separators=(",", ":"))


def decode_metadata(record: OffsetAndMetadata, group: str, *fields: tuple[str, type]) -> dict[str, Any]:
    """Decode metadata with fields of these types. Raises ``OptionError`` (fatal) for metadata of another
    program."""
    try:
        content = json.loads(record.metadata)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("kafkawire") != 1:
        raise _foreign(record, group)
    if not all(type(content.get(name)) is kind for name, kind in fields):
        raise _foreign(record, group)
    return content


def _foreign(record: OffsetAndMetadata, group: str) -> OptionError:
    return OptionError(
        f"option kafka.transactional.id: group {quote(group)}, which keeps the state of this write, holds "
        f"an offset that another program committed ({quote(record.metadata)}); choose an id that no other "
        "program uses"
    )
