"""Every option that streams alone take: the table of ``docs/streaming.md`` is checked against this one."""

from __future__ import annotations

from typing import Final

from ..model import Generation
from .option import read

#: What streams take besides: limits of one batch, and commits to a group. Batch reads pass over them with a
#: warning, as those of Spark's own connector do. An option that is above, too, is another one to streams.
STREAM_OPTIONS: Final = (
    read(
        "maxOffsetsPerTrigger",
        None,
        "most records of one batch, shared by the partitions in proportion to what each is behind",
        Generation.MODERN,
    ),
    read("minOffsetsPerTrigger", None, "a batch waits until it has so many records", Generation.MODERN),
    read("maxTriggerDelay", "15m", "how long a batch waits for `minOffsetsPerTrigger`", Generation.MODERN),
    read(
        "maxBytesPerTrigger",
        None,
        "most bytes of one batch, which ends where segments or logs do: at least one segment of each log",
        Generation.V07,
    ),
    read(
        "groupMembership",
        "none",
        "`join`: the query is a consumer of the group `kafka.group.id`, beside the JVM's; see "
        "[Kafka 0.7](kafka-0.7.md#join-a-group)",
        Generation.V07,
    ),
    read("groupThreads", "1", "as how many threads the query counts when the group shares", Generation.V07),
    read(
        "commitOffsets", "false", "`true`: commit what finished batches have read to the group, a batch late"
    ),
    read(
        "kafka.group.id",
        None,
        "the group of `commitOffsets` and of `groupMembership`, in 0.7 in ZooKeeper, and of "
        "`startingOffsets=committed`; none is joined otherwise",
    ),
)
