"""Batch ends of a stream, as Spark from 4.2 on asks for them.

Spark looks at the signature of ``latestOffset`` to see what a source can, so this is a class of its own.
"""

from __future__ import annotations

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ..planner.stream_offsets import to_json
from .edge import edge
from .stream_reader import JsonOffsets, KafkaWireStreamReader


class LimitedStreamReader(KafkaWireStreamReader, SupportsTriggerAvailableNow):
    """Ends each batch where the options and the trigger say."""

    @edge
    def prepareForTriggerAvailableNow(self) -> None:
        """Read no further than where the partitions end now."""
        self._planner.stop_at_latest()

    @edge
    def getDefaultReadLimit(self) -> ReadLimit:
        """The limits of the options, as far as Spark has words for them. It hands them back at each trigger,
        and ``ReadAllAvailable`` instead with the trigger Once."""
        limits = self._options.limits
        if limits.bytes_max is not None:
            return ReadMaxBytes(limits.bytes_max)
        if limits.size_max is not None:
            return ReadMaxRows(limits.size_max)
        return ReadAllAvailable() if limits.size_min is None else ReadMinRows(limits.size_min)

    # Spark's own stub has the signature of before 4.2; it looks at this one to see what the source can.
    @edge
    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:
        """The end of the next batch; ``start`` itself if there is nothing to read."""
        begins = self._from_json(start)
        ends = self._planner.next(begins, limited=not isinstance(limit, ReadAllAvailable))
        # Spark compares the texts, and takes another one for new data.
        return start if ends == begins else self._to_json(ends, begins)

    @edge
    def reportLatestOffset(self) -> JsonOffsets | None:
        """End offsets at the last look, which a query's progress shows as ``latestOffset``. A query
        that has joined a group adds its consumer there, as a topic of no partitions."""
        latest = self._planner.latest or {}
        if latest != self._reported[0]:
            self._reported = latest, to_json(latest)
        return {**self._reported[1], **self._consumer_mark()} or None
