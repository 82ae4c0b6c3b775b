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
    before = copy.progress
    if before is None:
        _check_new(clusters, copy, target)
        producer = obtain_producer_id(clusters.metadata, clusters.write, _IDEMPOTENT_MAGIC)
        mark = Mark(copy.start_offset, target.latest)
    else:
        producer = before.producer
        at = before.copied.target_offset
        # What an older copy of the state does not know of is found behind its mark.
        is_old = _holds_next(clusters, copy, at, target.latest)
        mark = Mark(copy.start_offset, at if is_old else target.latest, before.copied.message_count)
    return LogProgress(copy.route.source, copy.route.target, topic_id, producer, mark, mark)


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


def _check_new(clusters: Clusters, copy: LogCopy, target: LogBounds) -> None:
    """Raise ``OptionError`` (fatal) where the target of a log that was never copied begins with it."""
    # The first message is enough: a copy of another directory began there.
    stop_offset = min(target.earliest + 1, target.latest)
    if _holds_next(clusters, copy, target.earliest, stop_offset):
        raise OptionError(
            f"argument --state: {copy.route.target} begins with the messages of {copy.route.source} already: "
            f"{_ADVICE}"
        )
