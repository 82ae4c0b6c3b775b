"""Stops a query that has joined a group of Kafka 0.7 between two of its batches."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, Protocol

from pyspark.sql.streaming.listener import StreamingQueryProgress

from spark_kafkawire.cluster.v07.membership import ask_to_leave
from spark_kafkawire.errors import OptionError
from spark_kafkawire.options import StreamOptions

from ..spark_versions import offsets_of_progress
from ..stream_reader import CONSUMER_MARK

#: Seconds between two looks at a query's progress.
_LOOK_AGAIN_S: Final = 0.1


class RunningQuery(Protocol):
    """The part of a ``StreamingQuery`` that is used, that of Spark Connect or not."""

    @property
    def isActive(self) -> bool: ...

    @property
    def lastProgress(self) -> StreamingQueryProgress | None: ...

    def stop(self) -> None: ...


def stop_between_batches(query: RunningQuery, options: Mapping[str, str], timeout: float) -> bool:
    """Stop a query with ``groupMembership=join`` once its batch is done and committed to the group.

        stop_between_batches(query, options, 60)

    ``query.stop()`` cancels the batch that runs. The next start runs it again, and other consumers of the
    group, which take the partitions over meanwhile, read the same rows. This function lets the query end its
    batch, commit it and leave the group, and stops it then: other consumers continue behind the batch, and so
    does the next start.

    ``options`` are those of the stream. Returns False where that takes longer than ``timeout`` seconds, or
    the query ends before. A query that runs stays running then, in its group. The progress of a query names
    its consumer, so the function waits until a query has finished a batch. Raises ``OptionError``, and
    ``DiscoveryError`` where ZooKeeper does not answer (both fatal).
    """
    read = StreamOptions.parse(options).read
    if read.membership is None:
        raise OptionError(
            "stop_between_batches is for queries with groupMembership=join, and this one has none: use "
            "query.stop()"
        )
    deadline_s = time.monotonic() + timeout
    while query.isActive and time.monotonic() < deadline_s:
        if consumers := _consumers(query.lastProgress, f"{read.membership.group}_"):
            left_s = max(deadline_s - time.monotonic(), 0.0)
            has_left = ask_to_leave(read, consumers, left_s)
            if has_left:
                query.stop()
            return has_left
        time.sleep(_LOOK_AGAIN_S)
    return False


def _consumers(progress: StreamingQueryProgress | None, prefix: str) -> list[str]:
    """The consumers of a query whose ids begin with ``prefix``, from its progress."""
    marks = [
        str(name).removeprefix(CONSUMER_MARK)
        for source in (progress.sources if progress else ())
        for name in _latest(source.latestOffset)
        if str(name).startswith(CONSUMER_MARK)
    ]
    return [consumer for consumer in marks if consumer.startswith(prefix)]


def _latest(text: str | None) -> Mapping[str, object]:
    try:
        found = offsets_of_progress(text)
    except (ValueError, OptionError):
        return {}
    return found if isinstance(found, dict) else {}
