"""What proves that rows may be left out of a read.

No row is left out because it did not come. What proves it stands here, and in the last column the test
that holds the code to it. Where the proof is missing, the read tries again for as long as its options say,
and then it is an error.
"""

from __future__ import annotations

from typing import Final

from ..cluster.cluster import Cluster
from ..errors import KafkaWireError, shown
from ..model import TopicPartition

_COMPACT: Final = "compact"


def doubt(cluster: Cluster, log: TopicPartition, offset: int) -> str | None:
    """Why compaction cannot be what leaves a fetch at ``offset`` without records; None where it can.

    The caller knows from the log's leader that the log goes on after the range.
    """
    way_out = f"if nothing is missing, end the range at {offset} (endingOffsets)"
    try:
        local_start = cluster.local_starts((log,))[log]
        if local_start > offset:
            return f"a fetch found nothing where the log has data: up to {local_start} in tiered storage"
        policy = cluster.cleanup_policy(log.topic)
    except KafkaWireError as error:
        return (
            f"compaction might explain it, but cannot be seen: {error}; let the user do DescribeConfigs, or, "
            f"{way_out}"
        )
    if _COMPACT in policy:
        return None
    words = shown(",".join(sorted(policy)))
    return f"compaction does not explain it, for cleanup.policy is {words}; {way_out}"
