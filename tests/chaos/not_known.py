"""The few lies that no client can tell from the truth, each with the reason."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from spark_kafkawire.protocol import modern, v07
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.modern.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
)
from tests.support.log_broker import OFFERED
from tests.support.memory_log import offset_count, split

from .shapes import Raw

if TYPE_CHECKING:
    from .lies import Lie


@dataclass(frozen=True, slots=True)
class NotKnown:
    """Lies about these fields of the API of ``example``, which shows that they are still believed.

    Empty ``kinds`` and ``exchanges`` are all of them.
    """

    example: str
    fields: str
    reason: str
    kinds: tuple[str, ...] = ()
    exchanges: tuple[str, ...] = ()

    def covers(self, lie: Lie) -> bool:
        """True if the lie is one of them."""
        return (
            f" {lie.api.name} " in self.example
            and not lie.names.isdisjoint(self.fields.split())
            and (not self.kinds or lie.kind in self.kinds)
            and (not self.exchanges or lie.exchange.name in self.exchanges)
        )


_REPORTED: Final = "a report shows what the broker says, and nothing else that is asked depends on it"
_ITS_GROUPS: Final = "which groups there are, and what is in them, only their coordinator knows"
_ITS_TRANSACTIONS: Final = "which transactions are open, and whose, only their coordinator knows"
#: APIs that an exchange does without where the broker does not name them, and why.
_MISSING: Final = (
    ("write", modern.INIT_PRODUCER_ID, "a broker need not have idempotent producers: the write warns of it"),
    ("report", modern.CONSUMER_GROUP_DESCRIBE, "brokers before 3.7 lead no groups themselves"),
    ("share group", modern.SHARE_GROUP_DESCRIBE, "brokers before 4.1 do not describe share groups"),
    ("streams group", modern.STREAMS_GROUP_DESCRIBE, "brokers before 4.2 do not describe streams groups"),
)
_OF_GROUPS: Final = ("report DescribeGroups", "report ConsumerGroupDescribe",
                     "share group ShareGroupDescribe", "streams group StreamsGroupDescribe")  # fmt: skip
_COMPACTED: Final = "read what compaction left"
_BY_PATTERN: Final = ("read a pattern", "report")
_LOG: Final = "responses.0.partitions.0"
NOT_TO_BE_KNOWN: Final = (
    *(NotKnown(f"{exchange} ApiVersions newest api_keys.{list(OFFERED).index(api.key)}.api_key: max, always",
               "api_keys api_key min_version max_version", reason, (), (exchange,))
      for exchange, api, reason in _MISSING),
    *(NotKnown(f"{asked} newest groups.0.members.0.member_id: another topic, always",
               "members member_id", _ITS_GROUPS) for asked in _OF_GROUPS),
    NotKnown("transact DescribeTransactions newest transaction_states.0.producer_epoch: 1, always",
             "transaction_state producer_id producer_epoch topic", _ITS_TRANSACTIONS),
    NotKnown("transact EndTxn newest producer_epoch: max, always", "producer_id producer_epoch",
             "who may begin the next transaction, only its coordinator knows"),
    NotKnown("transact ApiVersions newest finalized_features.0.max_version_level: one more, always",
             "finalized_features name max_version_level",
             "which protocol of transactions a cluster agreed on, only its brokers know", (), ("transact",)),
    NotKnown("transact ListTransactions newest transaction_states: empty, always",
             "transaction_states transactional_id", _ITS_TRANSACTIONS),
    NotKnown("read a pattern Metadata newest topics: empty, always", "topics",
             "brokers leave out topics that their user may not see",
             ("empty", "without first", "without last"), _BY_PATTERN),
    NotKnown("read Metadata newest topics.0.partitions: without last, always", "partitions",
             "how many partitions a topic has, only its cluster knows", ("without last",)),
    NotKnown("read a pattern Metadata newest topics.0.is_internal: the contrary, always", "is_internal",
             "which topics are the cluster's own, only the cluster knows", (), _BY_PATTERN),
    NotKnown("report Metadata newest topics.0.partitions.0.leader_id: -1, always",
             "node_id leader_id brokers",
             "a partition may be without leader, and a report says so", (), ("report",)),
    NotKnown("read ListOffsets newest topics.0.partitions.0.offset: 1, always", "offset",
             "where a log starts and ends, and which offset belongs to a time, only its leader knows"),
    NotKnown("report ListOffsets newest topics.0.partitions.0.timestamp: 0, always", "timestamp",
             _REPORTED, (), ("report",)),
    NotKnown("read 0.7 OFFSETS 0 offsets: without first, once", "offsets",
             "where a log starts and ends, and its segments begin, only its broker knows"),
    NotKnown("read from a group's offsets OffsetFetch 7 topics.0.partitions.0.committed_offset: 0, always",
             "committed_offset", "what a group has committed, only its coordinator knows"),
    NotKnown("report OffsetFetch 2 topics.0.partitions: empty, always",
             "topics partitions name partition_index", _ITS_GROUPS, (), ("report",)),
    NotKnown("report ListGroups newest groups: empty, always", "groups group_id protocol_type", _ITS_GROUPS),
    NotKnown("read the proposal Fetch 0 data.0.partition_data.0.messages: first batch twice, always",
             "messages", "messages of the proposal have no offsets: one is as good as another of its size",
             ("first batch twice",)),
    NotKnown("tables DescribeLogDirs newest results.0.topics: empty, always",
             "results topics partitions name partition_index is_future_key log_dir",
             "which replicas a broker holds, only it knows"),
    NotKnown("tables DescribeLogDirs newest results.0.total_bytes: max, always",
             "partition_size total_bytes usable_bytes error_code", _REPORTED),
    NotKnown("tables DescribeProducers 0 topics.0.partitions.0.active_producers: empty, always",
             "active_producers producer_id producer_epoch last_sequence last_timestamp coordinator_epoch "
             "current_txn_start_offset", "which producers write to a partition, only its leader knows"),
    NotKnown(f"read Fetch newest {_LOG}.records: last batch, always", "records",
             "a topic may have been compacted before, of which a warning tells, and which log whole batches "
             "are from, they do not say", ("last batch", "another log's")),
    NotKnown(f"{_COMPACTED} Fetch newest {_LOG}.high_watermark and {_LOG}.records.0.base_offset: "
             "both one more, always", "base_offset",
             "a batch of a topic that is compacted may be at any offset of the log", (), (_COMPACTED,)),
    NotKnown(f"{_COMPACTED} Fetch newest {_LOG}.records: empty, always", "records",
             "of a topic that is compacted any record may be gone", ("empty", "null"), (_COMPACTED,)),
)  # fmt: skip


# --- Contradictions within answers, by rules that are written here alone: the judge of clients that took  ---

#: Requests, and what was answered.
Answered = Sequence[tuple[Any, Any]]


def self_contradiction(api: Api, said: Answered) -> str:
    """The reason why the answers of an API alone prove that they are wrong, whoever has given them; "" if
    they prove nothing."""
    return next(_FAULTS[api](said), "") if api in _FAULTS else ""


def _of_offsets(said: Answered) -> Iterator[str]:
    starts: dict[tuple[str, int], set[int]] = collections.defaultdict(set)
    for request, response in said:
        if request.time not in (v07.LATEST_TIME, v07.EARLIEST_TIME):
            continue
        if not isinstance(response.offsets, tuple):  # what is no list at all
            continue
        if not 0 < len(response.offsets) <= max(request.max_offsets, 1):
            yield "another count of offsets than was asked for"
        elif min(response.offsets) < 0 or any(older > newer for newer, older in pairwise(response.offsets)):
            yield "offsets below 0, or not newest first"
        elif len(set(response.offsets[1:])) < len(response.offsets[1:]):
            yield "two segments that start at one offset"
        else:
            starts[request.topic, request.partition].add(response.offsets[-1])
    yield from (
        f"{partition} starts at {sorted(result)}" for partition, result in starts.items() if len(result) > 1
    )


def _of_list_offsets(said: Answered) -> Iterator[str]:
    result: dict[tuple[tuple[str, int], int], set[int]] = collections.defaultdict(set)
    for request, response in said:
        asked = {(item.name, part.partition_index): part.timestamp
                 for item in request.topics for part in item.partitions}  # fmt: skip
        for topic in response.topics:
            for part in topic.partitions:
                key = topic.name, part.partition_index
                result[key, asked.get(key, 0)].add(part.found_offset)
    for key in {key for key, _ in result}:
        starts, ends = (result.get((key, time), ()) for time in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP))
        if starts and ends and max(starts) > min(ends):
            yield f"{key} starts after its end"


def _of_fetch(said: Answered) -> Iterator[str]:
    for _, response in said:
        for partition in (item for topic in response.responses for item in topic.partitions):
            records = b"" if isinstance(partition.records, Raw) else partition.records
            for batch in split(bytes(records or b"")):
                base_offset = int.from_bytes(batch[:8], "big", signed=True)
                if base_offset + offset_count(batch) > partition.high_watermark:
                    yield f"a batch at {base_offset} of a log that ends at {partition.high_watermark}"


_FAULTS: Final[Mapping[Api, Callable[[Answered], Iterator[str]]]] = {
    v07.OFFSETS: _of_offsets,
    modern.LIST_OFFSETS: _of_list_offsets,
    modern.FETCH: _of_fetch,
}
