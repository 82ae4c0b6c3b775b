"""Gaps between the batches of one range of modern Kafka: their confirmation, and the warning about them.

Compaction leaves gaps in a topic whose ``cleanup.policy`` contains compact. A gap in another topic can be
legal if the topic was compacted before. But it is rare, and a changed base offset looks the same. So the
first such gap is fetched again on another connection, and all of them are reported.
"""

from __future__ import annotations

from typing import Final

from spark_kafkawire.cluster.cluster import Cluster
from spark_kafkawire.errors import LOG, KafkaWireError, printable
from spark_kafkawire.model import Broker, OffsetRange

from .data_loss import COMPACT
from .task import COMPARE_LOGS, Contradiction, Gaps

#: Most gaps that a warning lists.
_LISTED_MAX: Final = 5


class GapWatch:
    """The gaps of one range. No request is sent before the first gap, and each request only once."""

    def __init__(self, offset_range: OffsetRange, cluster: Cluster) -> None:
        self._range = offset_range
        self._cluster = cluster
        self._log_end = offset_range.stop_offset
        #: The reason why compaction does not explain the gaps, "" if it does; None before the first gap.
        self._reason: str | None = None
        self._suspect: tuple[int, int] | None = None
        self._is_confirmed = False
        self._gap_count = self._offset_count = 0
        self._listed: list[str] = []

    def check(self, gaps: Gaps) -> None:
        """Accept the gaps of a response. Raises ``Contradiction`` if they must be fetched again."""
        self._check_end(gaps)
        if self._reason is None:
            self._reason = self._reason_against_compaction()
        if self._reason:
            self._confirm(gaps)
            self._count(gaps)

    def report(self, broker: Broker) -> None:
        """Warn about the gaps that compaction does not explain."""
        if not self._gap_count:
            return
        more = self._gap_count - len(self._listed)
        LOG.warning(
            "%s on %s: the log has gaps, %d of its offsets are missing: %s%s; %s. If the topic was not "
            "compacted before, records are lost",
            self._range,
            broker,
            self._offset_count,
            ", ".join(self._listed),
            f" and {more} more" if more else "",
            self._reason,
        )

    def _check_end(self, gaps: Gaps) -> None:
        """Check that the batches after the range exist, which proves that the end of the range is empty: the
        leader's high watermark must be above them."""
        if gaps.next_offset <= self._log_end:
            return
        partition = self._range.topic_partition
        self._log_end = max(self._log_end, self._cluster.high_watermarks((partition,))[partition])
        if gaps.next_offset > self._log_end:
            start, _ = gaps.spans[0].tolist()
            raise Contradiction(
                f"Fetch returned nothing at offset {start}, but batches up to offset "
                f"{gaps.next_offset - 1}, and by ListOffsets the log ends at offset {self._log_end}; "
                f"{COMPARE_LOGS}",
                gaps.offset,
            )

    def _reason_against_compaction(self) -> str:
        try:
            policy = self._cluster.cleanup_policy(self._range.topic_partition.topic)
        except KafkaWireError as error:
            return f"cleanup.policy, which might explain it, is not known: {error}"
        return "" if COMPACT in policy else f"cleanup.policy is {printable(','.join(sorted(policy)))}"

    def _confirm(self, gaps: Gaps) -> None:
        """Accept a gap that two fetches show, and all later ones: a partition with one gap has others."""
        start, stop = gaps.spans[0].tolist()
        if not self._is_confirmed and self._suspect != (start, stop):
            self._suspect = start, stop
            raise Contradiction(
                f"Fetch returned nothing at the offsets {start} to {stop - 1}, but batches after them, "
                f"and another fetch shows other offsets; {self._reason}; {COMPARE_LOGS}",
                gaps.offset,
            )
        self._is_confirmed = True

    def _count(self, gaps: Gaps) -> None:
        self._gap_count += len(gaps.spans)
        self._offset_count += int((gaps.spans[:, 1] - gaps.spans[:, 0]).sum())
        listed = gaps.spans[: _LISTED_MAX - len(self._listed)].tolist()
        self._listed += [f"[{start}, {stop})" for start, stop in listed]
