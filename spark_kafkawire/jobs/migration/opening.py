"""Opens a log: where its copy goes on, and as whom it is sent.

The target may have got messages that the state directory knows nothing of: that may be an older copy that
was put back, or a new one where there was another before. The target tells: what is behind the mark of a
log, or at the beginning of a target that was never written to by the state's account, is then the source's
own.
"""

from __future__ import annotations

from contextlib import closing
from typing import Final

from ...clients.writing.modern.identity import obtain_producer_id
from ...errors import OptionError
from ...model import LogBounds
from .clusters import Clusters
from .exactly_once import LogTransaction
from .notes import Note
from .planning import LogCopy
from .state import LogProgress, Mark

#: Format of records whose batches carry an identity (Kafka 0.11).
_IDEMPOTENT_MAGIC: Final = 2
_ADVICE: Final = (
    "another --state copied it: go on with that one, or copy to a new topic by --map; else all of it would "
    "be there twice"
)


def opened(clusters: Clusters, copy: LogCopy, target: LogBounds, topic_id: str | None) -> LogProgress:
    """The log's progress, to be saved before anything is sent.

    Raises ``OptionError`` (fatal) where another state directory has begun to copy it, and what reading and
    asking for an identity raise.
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
    return LogProgress(copy.route.source, copy.route.target, topic_id, producer, mark, mark)


def _note(clusters: Clusters, copy: LogCopy) -> Note | None:
    """What brokers keep of the log, where that is copied in transactions."""
    if not clusters.are_in_transactions:
        return None
    with LogTransaction(clusters, copy.route) as transaction:
        return transaction.note()


def _is_old(clusters: Clusters, copy: LogCopy, mark: Mark, target: LogBounds, note: Note | None) -> bool:
    """Whether more was copied than the state's mark says, as an older copy of it does."""
    if note is not None and note.mark.message_count >= mark.message_count:
        return note.is_after(mark)
    # What it does not know of is found behind its mark.
    return _holds_next(clusters, copy, mark.target_offset, target.latest)


def _holds_next(clusters: Clusters, copy: LogCopy, start_offset: int, stop_offset: int) -> bool:
    """Whether the target holds, in a range of it, what is to be copied next.

    With source headers a message anywhere in the range says so, without them its first one, by its
    value: others may have written there. Raises what reading raises.
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


def _check_new(clusters: Clusters, copy: LogCopy, target: LogBounds, note: Note | None) -> None:
    """Raise ``OptionError`` (fatal) where a log that was never copied, by the state's account, was."""
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
