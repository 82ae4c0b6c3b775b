"""Opens a partition for migration: finds where its copy continues, and gets its producer id.

The target may hold messages that the state directory does not know, because the directory was restored from
an older copy or is new. So the target is checked: messages of the source after the mark, or at the beginning
of a target that the state has never written to, reveal this.
"""

from __future__ import annotations

from contextlib import closing
from typing import Final

from spark_kafkawire.clients.writing.modern.batches import obtain_producer_id
from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import PartitionBounds

from .clusters import Clusters
from .exactly_once import PartitionTransaction
from .notes import Note
from .planning import PartitionCopy
from .state import Mark, PartitionProgress

#: Format of records whose batches carry an identity (Kafka 0.11).
_IDEMPOTENT_MAGIC: Final = 2
_ADVICE: Final = (
    "another --state copied it: continue with that one, or copy to a new topic with --map; otherwise all "
    "messages would be there twice"
)


def opened(
    clusters: Clusters, copy: PartitionCopy, target: PartitionBounds, topic_id: str | None
) -> PartitionProgress:
    """The partition's progress, to be saved before anything is sent.

    Raises ``OptionError`` (fatal) where another state directory has begun to copy it, and the errors of
    reading and of asking for a producer id.
    """
    before, note = copy.progress, _note(clusters, copy)
    if before is None:
        _check_new(clusters, copy, target, note)
        producer = None
        if not clusters.are_in_transactions:
            producer = obtain_producer_id(clusters.metadata, clusters.write, _IDEMPOTENT_MAGIC)
        mark = Mark(copy.start_offset, target.latest)
    else:
        producer = before.producer
        is_old = _is_old(clusters, copy, before.copied, target, note)
        at = before.copied.target_offset if is_old else target.latest
        mark = Mark(copy.start_offset, at, before.copied.message_count)
    return PartitionProgress(copy.route.source, copy.route.target, topic_id, producer, mark, mark)


def _note(clusters: Clusters, copy: PartitionCopy) -> Note | None:
    """The note of the log that brokers keep, if it is copied in transactions."""
    if not clusters.are_in_transactions:
        return None
    with PartitionTransaction(clusters, copy.route) as transaction:
        return transaction.note()


def _is_old(
    clusters: Clusters, copy: PartitionCopy, mark: Mark, target: PartitionBounds, note: Note | None
) -> bool:
    """True if more was copied than the state's mark says, as with an older copy of the state."""
    if note is not None and note.mark.message_count >= mark.message_count:
        return note.is_after(mark)
    # Messages that the state does not know are after its mark.
    return _holds_next(clusters, copy, mark.target_offset, target.latest)


def _holds_next(clusters: Clusters, copy: PartitionCopy, start_offset: int, stop_offset: int) -> bool:
    """True if the target holds, in a range of it, the messages to copy next.

    With source headers a message anywhere in the range says so, without them its first one, by its
    value: other programs may have written there. Raises the errors of reading.
    """
    if not copy.size:
        return False
    target = copy.route.target
    with closing(clusters.copied_values(copy.route.source, target, start_offset, stop_offset)) as pieces:
        there = next((values[0] for values in pieces if len(values)), None)
    if there is None or clusters.source_headers:
        return there is not None
    with closing(clusters.source_columns(copy.fetch_task(copy.start_offset))) as source:
        first = next((each.values[0] for each in source if each.values is not None and each.count), None)
    return bool(there == first)


def _check_new(clusters: Clusters, copy: PartitionCopy, target: PartitionBounds, note: Note | None) -> None:
    """Raise ``OptionError`` (fatal) where a partition that was never copied, by the state's account, was."""
    if note is not None:
        raise OptionError(
            f"argument --state: {copy.route.source} is copied to {copy.route.target} already, with this name "
            f"of transactions: {_ADVICE}"
        )
    # The first message is enough: a copy of another directory began there.
    first = clusters.first_offset(copy.route.target, target.earliest, target.latest)
    if first is not None and _holds_next(clusters, copy, first, first + 1):
        raise OptionError(
            f"argument --state: {copy.route.target} begins with the messages of {copy.route.source} already: "
            f"{_ADVICE}"
        )
