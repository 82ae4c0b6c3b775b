"""The tables ``transactions`` and ``producers``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..cluster.modern.admin import active_producers
from ..cluster.modern.transactions import Transactions
from ..model import Generation, TopicPartition
from ..protocol.modern.describe_producers import NO_TRANSACTION
from .groups import structs
from .scan import Scan, needs
from .table import FLAG, INT, LONG, PARTITIONS, TEXT, TIME, TOPICS, Column, Row, Table, us_of
from .topics import last_stable_offsets

_DESCRIBED: Final = ("producerEpoch", "timeoutMs", "startTime", "partitions")


def _transactions(scan: Scan) -> Iterator[Row]:
    asking = Transactions(scan.metadata, scan.net)
    with needs("Describe on the transactional ids"):
        listed = asking.listed_by_coordinator()
        if not any(listed.values()):
            asking.check_sees_ids()
        found = asking.described_by(listed) if scan.wants(*_DESCRIBED) else {}
    rows = [(each, broker) for broker, own in listed.items() for each in own]
    for each, broker in sorted(rows, key=lambda row: row[0].transactional_id):
        state = found.get(each.transactional_id)
        partitions = (
            [TopicPartition(t.topic, p) for t in state.topics for p in t.partitions] if state else None
        )
        yield {
            "transactionalId": each.transactional_id,
            "state": each.transaction_state,
            "coordinator": broker.id,
            "producerId": each.producer_id,
            "producerEpoch": state.producer_epoch if state else None,
            "timeoutMs": state.transaction_timeout_ms if state else None,
            "startTime": us_of(state.transaction_start_time_ms) if state else None,
            "partitions": None if partitions is None else structs(partitions),
        }


def _producers(scan: Scan) -> Iterator[Row]:
    with needs("Read on the topics; or choose others with subscribe"):
        found = active_producers(scan.metadata, scan.led, scan.net)
    # Stable offsets come after the producers: a transaction that ended meanwhile holds nothing back.
    stable = last_stable_offsets(scan, scan.wants("lastStable", "holdsLastStable"))
    for tp, states in sorted(found.items()):
        for state in sorted(states, key=lambda each: each.producer_id):
            start = state.current_txn_start_offset
            yield {
                "topic": tp.topic,
                "partition": tp.partition,
                "producerId": state.producer_id,
                "producerEpoch": state.producer_epoch,
                "lastSequence": state.last_sequence if state.last_sequence >= 0 else None,
                "lastTimestamp": us_of(state.last_timestamp),
                "coordinatorEpoch": state.coordinator_epoch if state.coordinator_epoch >= 0 else None,
                "txnStartOffset": start if start != NO_TRANSACTION else None,
                "lastStable": stable.get(tp),
                "holdsLastStable": start != NO_TRANSACTION and stable.get(tp) == start,
            }


TRANSACTIONS: Final = Table(
    "transactions",
    "Transactional ids and their last transactions, from Kafka 3.0 on.",
    (
        Column("transactionalId", TEXT, "transactional id"),
        Column("state", TEXT, "state, such as `Ongoing` or `CompleteCommit`"),
        Column("coordinator", INT, "id of the broker that coordinates it"),
        Column("producerId", LONG, "id of its producer"),
        Column("producerEpoch", INT, "epoch of its producer"),
        Column("timeoutMs", INT, "time after which the coordinator aborts a transaction, ms"),
        Column("startTime", TIME, "start of the open transaction; null if none is open"),
        Column("partitions", PARTITIONS, "partitions in it; once it ends, those without its marker"),
    ),
    {Generation.MODERN: _transactions},
)

PRODUCERS: Final = Table(
    "producers",
    "Producers whose state the leader of a partition keeps, from Kafka 2.8 on: idempotent and transactional "
    "ones.",
    (
        Column("topic", TEXT, "topic"),
        Column("partition", INT, "partition"),
        Column("producerId", LONG, "id of the producer"),
        Column("producerEpoch", INT, "epoch of the producer"),
        Column("lastSequence", INT, "sequence number of its last record; null if unknown"),
        Column("lastTimestamp", TIME, "time of its last batch"),
        Column(
            "coordinatorEpoch", INT, "epoch of the coordinator that wrote its last marker; null without one"
        ),
        Column("txnStartOffset", LONG, "first offset of its open transaction; null if none is open"),
        Column("lastStable", LONG, "last stable offset of the partition"),
        Column(
            "holdsLastStable", FLAG, "true if its open transaction is what `read_committed` readers wait for"
        ),
    ),
    {Generation.MODERN: _producers},
    TOPICS,
)
