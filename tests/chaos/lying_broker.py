"""A broker on a TCP port that lies in one place, and is honest and complete everywhere else."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from spark_kafkawire.model import Broker
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api, VersionRange
from spark_kafkawire.protocol.modern import (
    add_to_txn,
    api_versions,
    consumer_group_describe,
    create_topics,
    delegation_tokens,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    end_txn,
    fetch,
    init_producer_id,
    list_groups,
    list_offsets,
    list_transactions,
    offset_commit,
    sasl,
    share_group_describe,
    streams_group_describe,
    txn_offset_commit,
)
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.primitives import Buffer
from tests.support.log_broker import OFFERED, PRODUCER_ID, LogBroker
from tests.support.log_server import LogServer, Sent
from tests.support.memory_log import MemoryLog, split
from tests.support.streams_groups import streams_group

GROUP: Final = "g"
#: A group of the kind that brokers coordinate themselves (KIP-848).
LED_GROUP: Final = "led"
#: Where the magic of a batch is, its producer's id and epoch, its first sequence and its youngest time.
_PRODUCER: Final = slice(43, 57)
_NO_PRODUCER_ID: Final = b"\xff" * 8
_MAX_TIME: Final = slice(35, 43)


class SequencedLog(MemoryLog):
    """A log that appends a batch of an idempotent producer once, as brokers do, and knows times.

    ``is_identified`` tells of each batch that was appended whether it was one of such a producer.
    """

    def __init__(self, *batches: Buffer) -> None:
        self._appended: dict[bytes, int] = {}
        self._times: list[tuple[int, int]] = []
        self.is_identified: list[bool] = []
        super().__init__(*batches)
        self._given_count = len(self.is_identified)

    @property
    def is_new(self) -> bool:
        """True if anything was appended after the log was made."""
        return len(self.is_identified) > self._given_count

    def append(self, batches: Buffer) -> int:
        first: int | None = None
        for batch in split(batches):
            identity = bytes(batch[_PRODUCER])
            is_identified = not identity.startswith(_NO_PRODUCER_ID)
            if not is_identified or identity not in self._appended:
                self._appended[identity] = self.stop_offset
                self._times.append((int.from_bytes(batch[_MAX_TIME], "big"), self.stop_offset))
                self.is_identified.append(is_identified)
                super().append(batch)
            first = self._appended[identity] if first is None else first
        return self.stop_offset if first is None else first

    def offset_at(self, time_ms: int) -> tuple[int, int]:
        """Time and offset of the first batch as young as that, -1 and -1 where none is."""
        return next((found for found in self._times if found[0] >= time_ms), (-1, -1))


class CompactedLog(SequencedLog):
    """A log whose last records compaction took: it ends ``gap`` offsets behind the last that is left."""

    def __init__(self, gap: int, *batches: Buffer) -> None:
        super().__init__(*batches)
        self._left_offset = self.stop_offset
        self.stop_offset += gap

    def read(self, offset: int, size_max: int) -> Buffer:
        return super().read(offset, size_max) if offset < self._left_offset else b""


class TransactedLog(SequencedLog):
    """A log that knows the transactions in it which were aborted."""

    def __init__(self, aborted: Sequence[fetch.AbortedTransaction], *batches: Buffer) -> None:
        super().__init__(*batches)
        self.aborted = tuple(aborted)


#: The token of everyone who asks for one.
TOKEN: Final = delegation_tokens.CreateDelegationTokenResponse(
    error_code=0,
    principal_type="User",
    principal_name="u",
    token_requester_principal_type="User",
    token_requester_principal_name="u",
    issue_timestamp_ms=1_750_000_000_000,
    expiry_timestamp_ms=1_750_086_400_000,
    max_timestamp_ms=1_750_604_800_000,
    token_id="a-token",
    hmac=b"an HMAC",
    throttle_time_ms=0,
)


class CompleteBroker(LogBroker):
    """A ``LogBroker`` that answers all of the protocol that this package speaks."""

    def __init__(
        self, broker: Broker, logs: Mapping[str, Sequence[SequencedLog]], offered: Mapping[int, VersionRange]
    ) -> None:
        super().__init__(broker, logs, offered)
        compacted = {topic for topic, own in logs.items() for log in own if isinstance(log, CompactedLog)}
        self.configs |= {topic: {"cleanup.policy": "compact"} for topic in compacted}
        self.created: dict[str, int] = {}
        self.commits: dict[tuple[str, int], int] = {}
        #: Each transactional id with what its transaction holds, and ends.
        self.transactions: dict[str, list[str]] = {}
        self._answers = {
            **self._answers,
            list_groups.ListGroupsRequest: self._list_groups,
            consumer_group_describe.ConsumerGroupDescribeRequest: self._led_groups,
            share_group_describe.ShareGroupDescribeRequest: self._share_groups,
            streams_group_describe.StreamsGroupDescribeRequest: self._streams_groups,
            offset_commit.OffsetCommitRequest: self._commit,
            create_topics.CreateTopicsRequest: self._create,
            sasl.SaslHandshakeRequest: lambda _: sasl.SaslHandshakeResponse(
                error_code=0, mechanisms=("PLAIN", "SCRAM-SHA-512")
            ),
            delegation_tokens.CreateDelegationTokenRequest: lambda _: TOKEN,
            delegation_tokens.RenewDelegationTokenRequest: lambda _: (
                delegation_tokens.RenewDelegationTokenResponse(
                    error_code=0,
                    expiry_timestamp_ms=2 * TOKEN.expiry_timestamp_ms - TOKEN.issue_timestamp_ms,
                    throttle_time_ms=0,
                )
            ),
            delegation_tokens.ExpireDelegationTokenRequest: lambda _: (
                delegation_tokens.ExpireDelegationTokenResponse(
                    error_code=0, expiry_timestamp_ms=TOKEN.issue_timestamp_ms, throttle_time_ms=0
                )
            ),
            add_to_txn.AddPartitionsToTxnRequest: self._add_partitions,
            add_to_txn.AddOffsetsToTxnRequest: self._add_group,
            txn_offset_commit.TxnOffsetCommitRequest: self._commit_in_transaction,
            end_txn.EndTxnRequest: self._end_transaction,
            describe_log_dirs.DescribeLogDirsRequest: self._log_dirs,
            describe_producers.DescribeProducersRequest: self._producers,
            list_transactions.ListTransactionsRequest: self._list_transactions,
            list_transactions.DescribeTransactionsRequest: self._describe_transactions,
            sasl.SaslAuthenticateRequest: lambda _: sasl.SaslAuthenticateResponse(
                error_code=0, auth_bytes=b""
            ),
        }

    def _listed(
        self, topic: str, asked: list_offsets.ListOffsetsPartition
    ) -> list_offsets.ListOffsetsPartitionResponse:
        response = super()._listed(topic, asked)
        if asked.timestamp < 0 and asked.timestamp != list_offsets.MAX_TIMESTAMP:
            return response
        log: Any = self.logs[topic][asked.partition_index]
        is_youngest = asked.timestamp == list_offsets.MAX_TIMESTAMP
        time_ms, offset = max(log._times) if is_youngest else log.offset_at(asked.timestamp)
        return list_offsets.ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, error_code=0, timestamp=time_ms, offset=offset
        )

    def _fetched(self, topic: str, asked: fetch.FetchPartition, left: int) -> fetch.FetchPartitionResponse:
        response = super()._fetched(topic, asked, left)
        log = self.logs.get(topic, ())[asked.partition : asked.partition + 1]
        aborted = getattr(log[0], "aborted", None) if log else None
        return replace(response, aborted_transactions=aborted)

    def _describe_groups(self, request: Any) -> describe_groups.DescribeGroupsResponse:
        """A group that brokers coordinate themselves seems to have no members here."""
        reported = super()._describe_groups(request).groups
        return describe_groups.DescribeGroupsResponse(
            groups=tuple(
                replace(each, members=()) if each.group_id == LED_GROUP else each for each in reported
            )
        )

    def _list_groups(self, _request: Any) -> list_groups.ListGroupsResponse:
        group = list_groups.ListedGroup(group_id=GROUP, protocol_type="consumer")
        return list_groups.ListGroupsResponse(error_code=0, groups=(group,))

    def _led_groups(self, request: Any) -> consumer_group_describe.ConsumerGroupDescribeResponse:
        nothing = consumer_group_describe.MemberAssignment(topic_partitions=())
        member = consumer_group_describe.ConsumerGroupMember(
            member_id="m",
            member_epoch=1,
            client_id="",
            client_host="",
            subscribed_topic_names=(),
            assignment=nothing,
            target_assignment=nothing,
        )
        return consumer_group_describe.ConsumerGroupDescribeResponse(
            groups=tuple(
                consumer_group_describe.DescribedConsumerGroup(
                    error_code=0,
                    group_id=group_id,
                    group_state="",
                    group_epoch=1,
                    assignment_epoch=1,
                    assignor_name="",
                    members=(member,),
                )
                for group_id in request.group_ids
            )
        )

    def _share_groups(self, request: Any) -> share_group_describe.ShareGroupDescribeResponse:
        member = share_group_describe.ShareGroupMember(
            member_id="m",
            member_epoch=1,
            client_id="",
            client_host="",
            subscribed_topic_names=(),
            assignment=consumer_group_describe.MemberAssignment(topic_partitions=()),
        )
        return share_group_describe.ShareGroupDescribeResponse(
            groups=tuple(
                share_group_describe.DescribedShareGroup(
                    error_code=0,
                    group_id=group_id,
                    group_state="",
                    group_epoch=1,
                    assignment_epoch=1,
                    assignor_name="",
                    members=(member,),
                )
                for group_id in request.group_ids
            )
        )

    def _streams_groups(self, request: Any) -> streams_group_describe.StreamsGroupDescribeResponse:
        return streams_group_describe.StreamsGroupDescribeResponse(
            groups=tuple(streams_group(each, "m", next(iter(self.logs))) for each in request.group_ids)
        )

    def _commit(self, request: offset_commit.OffsetCommitRequest) -> offset_commit.OffsetCommitResponse:
        topics = []
        for topic in request.topics:
            reported = []
            for part in topic.partitions:
                self.commits[topic.name, part.partition_index] = part.committed_offset
                reported.append(
                    offset_commit.OffsetCommitPartitionResponse(
                        partition_index=part.partition_index, error_code=0
                    )
                )
            topics.append(
                offset_commit.OffsetCommitTopicResponse(name=topic.name, partitions=tuple(reported))
            )
        return offset_commit.OffsetCommitResponse(topics=tuple(topics))

    def _api_versions(self, request: Any, code: int = 0) -> api_versions.ApiVersionsResponse:
        """The cluster agreed on the second protocol of transactions where a broker speaks no other."""
        second = {modern.END_TXN.key: 5, modern.TXN_OFFSET_COMMIT.key: 5}
        level = 1 + any(self.offered[key].min >= since for key, since in second.items())
        feature = api_versions.FinalizedFeature(
            name="transaction.version", max_version_level=level, min_version_level=1
        )
        return replace(super()._api_versions(request, code), finalized_features=(feature,))

    def _init_producer_id(self, request: Any) -> init_producer_id.InitProducerIdResponse:
        if request.transactional_id is not None:
            self.transactions[request.transactional_id] = []
        return super()._init_producer_id(request)

    def _held_by(self, transactional_id: str, producer_id: int, epoch: int, what: str) -> int:
        """Note what a transaction holds; the code for one of another producer."""
        if (producer_id, epoch) != (PRODUCER_ID, 0) or transactional_id not in self.transactions:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        self.transactions[transactional_id].append(what)
        return 0

    def _add_partitions(self, request: Any) -> add_to_txn.AddPartitionsToTxnResponse:
        identity = (
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        )
        topics = tuple(
            add_to_txn.AddPartitionsToTxnTopicResponse(
                name=topic.name,
                results_by_partition=tuple(
                    add_to_txn.AddPartitionsToTxnPartitionResponse(
                        partition_index=index,
                        partition_error_code=self._held_by(*identity, f"{topic.name} {index}"),
                    )
                    for index in topic.partitions
                ),
            )
            for topic in request.v3_and_below_topics
        )
        return add_to_txn.AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=topics)

    def _add_group(self, request: Any) -> add_to_txn.AddOffsetsToTxnResponse:
        identity = request.transactional_id, request.producer_id, request.producer_epoch
        code = self._held_by(*identity, f"group {request.group_id}")
        return add_to_txn.AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=code)

    def _commit_in_transaction(self, request: Any) -> txn_offset_commit.TxnOffsetCommitResponse:
        identity = request.transactional_id, request.producer_id, request.producer_epoch
        topics = tuple(
            txn_offset_commit.TxnOffsetCommitTopicResponse(
                name=topic.name,
                partitions=tuple(
                    txn_offset_commit.TxnOffsetCommitPartitionResponse(
                        partition_index=part.partition_index,
                        error_code=self._held_by(*identity, f"offset {part.committed_offset}"),
                    )
                    for part in topic.partitions
                ),
            )
            for topic in request.topics
        )
        return txn_offset_commit.TxnOffsetCommitResponse(throttle_time_ms=0, topics=topics)

    def _end_transaction(self, request: Any) -> end_txn.EndTxnResponse:
        identity = request.transactional_id, request.producer_id, request.producer_epoch
        code = self._held_by(*identity, "commit" if request.committed else "abort")
        return end_txn.EndTxnResponse(
            throttle_time_ms=0, error_code=code, producer_id=PRODUCER_ID, producer_epoch=1
        )

    def _list_transactions(self, _request: Any) -> list_transactions.ListTransactionsResponse:
        return list_transactions.ListTransactionsResponse(
            throttle_time_ms=0,
            error_code=0,
            unknown_state_filters=("odd",),
            transaction_states=tuple(
                list_transactions.ListedTransaction(
                    transactional_id=each, producer_id=PRODUCER_ID, transaction_state="Ongoing"
                )
                for each in self.transactions
            ),
        )

    def _describe_transactions(self, request: Any) -> list_transactions.DescribeTransactionsResponse:
        return list_transactions.DescribeTransactionsResponse(
            throttle_time_ms=0,
            transaction_states=tuple(
                list_transactions.DescribedTransaction(
                    error_code=0,
                    transactional_id=each,
                    transaction_state="Ongoing",
                    transaction_timeout_ms=60_000,
                    transaction_start_time_ms=1,
                    producer_id=PRODUCER_ID,
                    producer_epoch=0,
                    topics=(list_transactions.TransactionTopic(topic="t", partitions=(0, 1)),),
                )
                for each in request.transactional_ids
            ),
        )

    def _log_dirs(self, _request: Any) -> describe_log_dirs.DescribeLogDirsResponse:
        topics = tuple(
            describe_log_dirs.LogDirTopic(
                name=topic,
                partitions=tuple(
                    describe_log_dirs.LogDirPartition(
                        partition_index=index, partition_size=1000 + index, offset_lag=0, is_future_key=False
                    )
                    for index in range(len(logs))
                ),
            )
            for topic, logs in self.logs.items()
        )
        directory = describe_log_dirs.LogDir(
            error_code=0, log_dir="/logs", topics=topics, total_bytes=10_000, usable_bytes=5_000
        )
        return describe_log_dirs.DescribeLogDirsResponse(results=(directory,))

    def _producers(self, request: Any) -> describe_producers.DescribeProducersResponse:
        state = describe_producers.ProducerState(
            producer_id=PRODUCER_ID,
            producer_epoch=0,
            last_sequence=1,
            last_timestamp=1,
            coordinator_epoch=0,
            current_txn_start_offset=1,
        )
        topics = tuple(
            describe_producers.TopicProducers(
                name=topic.name,
                partitions=tuple(
                    describe_producers.PartitionProducers(
                        partition_index=index, error_code=0, active_producers=(state,)
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.topics
        )
        return describe_producers.DescribeProducersResponse(throttle_time_ms=0, topics=topics)

    def _create(self, request: create_topics.CreateTopicsRequest) -> create_topics.CreateTopicsResponse:
        there = set(self.created)
        self.created |= {topic.name: topic.num_partitions for topic in request.topics}
        made = {topic.name: [SequencedLog() for _ in range(topic.num_partitions)] for topic in request.topics}
        self.logs = {**self.logs, **made}
        return create_topics.CreateTopicsResponse(
            topics=tuple(
                create_topics.CreatedTopic(
                    name=topic.name,
                    error_code=ErrorCode.TOPIC_ALREADY_EXISTS if topic.name in there else 0,
                    error_message=None,
                    num_partitions=topic.num_partitions,
                )
                for topic in request.topics
            )
        )


@dataclass(frozen=True, slots=True)
class Honest:
    """An honest response that is about to be sent."""

    api: Api
    version: int
    message: Any
    correlation_id: int
    request: Any = None


#: Says what is sent in place of an honest response; None for the response itself.
Liar = Callable[[Honest], Sent | None]


class LyingServer(LogServer):
    """``honest``, which keeps its records in ``kept``, on a port; between it and its clients stands
    ``liar``."""

    def __init__(
        self,
        logs: Mapping[str, Sequence[SequencedLog]],
        liar: Liar,
        offered: Mapping[int, VersionRange] = OFFERED,
    ) -> None:
        super().__init__(logs, offered=offered)
        self.kept = logs
        self.honest = CompleteBroker(self.broker.broker, logs, offered)
        self.broker = self.honest
        self._liar = liar

    @property
    def discovery(self) -> dict[str, str]:
        """Options by which clients find the broker."""
        return {"kafka.bootstrap.servers": self.bootstrap_servers}

    def _answer(self, connection: socket.socket, frame: memoryview) -> bool:
        api, header, pos = modern.DIALECT.read_request_header(frame)
        if api is not modern.API_VERSIONS and header.api_version not in self.honest.offered[api.key]:
            return False  # as brokers do with what they did not offer
        request = api.request_codec(header.api_version).read(frame, pos)[0]
        answer = self.broker.answer(api, header.api_version, request)
        if answer is None:
            return not api.awaits_response(request)
        response = Honest(api, answer[1], answer[0], header.correlation_id, request)
        sent = self._liar(response)
        if sent is None:
            self._send(connection, modern.DIALECT.write_response(api, *answer, header.correlation_id))
            return True
        connection.sendall(sent.data)
        if sent.then == "be silent":
            while connection.recv(1 << 16):
                pass
        return sent.then == "go on"
