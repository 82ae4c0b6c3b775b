"""A broker on a TCP port that lies in one place, and is honest and complete everywhere else."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from spark_kafkawire.broker.config import BrokerConfig
from spark_kafkawire.broker.server import BrokerServer
from spark_kafkawire.model import Broker
from spark_kafkawire.protocol import modern, proposal, v07
from spark_kafkawire.protocol.api import Api, VersionRange
from spark_kafkawire.protocol.modern import (
    describe_groups,
    fetch,
    list_offsets,
    negotiation,
    produce,
)
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.primitives import INT16, Buffer
from tests.support.log_broker import OFFERED, PRODUCER_ID, LogBroker
from tests.support.log_server import HOST, LogServer, Sent, read_frame, tell
from tests.support.made_messages import Content, made
from tests.support.memory_log import MemoryLog, split
from tests.support.message_sets import gzipped, message
from tests.support.streams_groups import streams_group

GROUP: Final = "g"
#: A group of the kind that brokers coordinate themselves (KIP-848).
LED_GROUP: Final = "led"
#: Where the magic of a batch is, its producer's id and epoch, its first sequence and its youngest time.
_PRODUCER: Final = slice(43, 57)
_NO_PRODUCER_ID: Final = b"\xff" * 8
_MAX_TIME: Final = slice(35, 43)
_ISSUED_MS, _EXPIRES_MS = 1_750_000_000_000, 1_750_086_400_000
#: The token of everyone who asks for one.
TOKEN: Final = {
    "principal_type": "User",
    "principal_name": "u",
    "token_requester_principal_type": "User",
    "token_requester_principal_name": "u",
    "issue_timestamp_ms": _ISSUED_MS,
    "expiry_timestamp_ms": _EXPIRES_MS,
    "max_timestamp_ms": 1_750_604_800_000,
    "token_id": "a-token",
    "hmac": b"an HMAC",
}
#: Answers that are the same whatever is asked.
_ALWAYS: Final[Mapping[Api, Mapping[str, Any]]] = {
    modern.LIST_GROUPS: {"groups": [{"group_id": GROUP, "protocol_type": "consumer"}]},
    modern.SASL_HANDSHAKE: {"mechanisms": ("PLAIN", "SCRAM-SHA-512")},
    modern.SASL_AUTHENTICATE: {},
    modern.CREATE_DELEGATION_TOKEN: TOKEN,
    modern.RENEW_DELEGATION_TOKEN: {"expiry_timestamp_ms": 2 * _EXPIRES_MS - _ISSUED_MS},
    modern.EXPIRE_DELEGATION_TOKEN: {"expiry_timestamp_ms": _ISSUED_MS},
}


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
        return next((result for result in self._times if result[0] >= time_ms), (-1, -1))


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
        own: dict[Api, Callable[[Any], Content]] = {
            **{api: partial(_always, content) for api, content in _ALWAYS.items()},
            modern.CONSUMER_GROUP_DESCRIBE: _described_groups,
            modern.SHARE_GROUP_DESCRIBE: _described_groups,
            modern.STREAMS_GROUP_DESCRIBE: self._streams_groups,
            modern.OFFSET_COMMIT: self._commit,
            modern.CREATE_TOPICS: self._create,
            modern.ADD_PARTITIONS_TO_TXN: self._add_partitions,
            modern.ADD_OFFSETS_TO_TXN: self._add_group,
            modern.TXN_OFFSET_COMMIT: self._commit_in_transaction,
            modern.END_TXN: self._end_transaction,
            modern.DESCRIBE_LOG_DIRS: self._log_dirs,
            modern.DESCRIBE_PRODUCERS: _producers,
            modern.LIST_TRANSACTIONS: self._list_transactions,
            modern.DESCRIBE_TRANSACTIONS: _described_transactions,
        }
        self._answers |= {api.request: partial(_answered, api, answer) for api, answer in own.items()}

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
        response = super()._describe_groups(request)
        groups = [
            replace(item, members=()) if item.group_id == LED_GROUP else item for item in response.groups
        ]
        return replace(response, groups=tuple(groups))

    def _streams_groups(self, request: Any) -> Content:
        return {"groups": [streams_group(item, "m", next(iter(self.logs))) for item in request.group_ids]}

    def _commit(self, request: Any) -> Content:
        def committed(topic: str, part: Any) -> Content:
            self.commits[topic, part.partition_index] = part.committed_offset
            return {"partition_index": part.partition_index}

        return {"topics": _of_partitions(request.topics, "partitions", committed)}

    def _api_versions(self, request: Any, code: int = 0) -> negotiation.ApiVersionsResponse:
        """The cluster agreed on the second protocol of transactions where a broker speaks no other."""
        second = {modern.END_TXN.key: 5, modern.TXN_OFFSET_COMMIT.key: 5}
        level = 1 + any(self.offered[key].min >= since for key, since in second.items())
        feature = negotiation.FinalizedFeature(
            name="transaction.version", max_version_level=level, min_version_level=1
        )
        return replace(super()._api_versions(request, code), finalized_features=(feature,))

    def _init_producer_id(self, request: Any) -> produce.InitProducerIdResponse:
        if request.transactional_id is not None:
            self.transactions[request.transactional_id] = []
        return super()._init_producer_id(request)

    def _held_by(self, request: Any, what: str, prefix: str = "") -> int:
        """Note what a transaction holds; the code for one of another producer."""
        id_, *producer = (
            getattr(request, f"{prefix}{field}")
            for field in ("transactional_id", "producer_id", "producer_epoch")
        )
        if producer != [PRODUCER_ID, 0] or id_ not in self.transactions:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        self.transactions[id_].append(what)
        return 0

    def _add_partitions(self, request: Any) -> Content:
        def added(topic: str, index: int) -> Content:
            code = self._held_by(request, f"{topic} {index}", "v3_and_below_")
            return {"partition_index": index, "partition_error_code": code}

        topics = _of_partitions(request.v3_and_below_topics, "partitions", added, "results_by_partition")
        return {"results_by_topic_v3_and_below": topics}

    def _add_group(self, request: Any) -> Content:
        return {"error_code": self._held_by(request, f"group {request.group_id}")}

    def _commit_in_transaction(self, request: Any) -> Content:
        def committed(_topic: str, part: Any) -> Content:
            code = self._held_by(request, f"offset {part.committed_offset}")
            return {"partition_index": part.partition_index, "error_code": code}

        return {"topics": _of_partitions(request.topics, "partitions", committed)}

    def _end_transaction(self, request: Any) -> Content:
        code = self._held_by(request, "commit" if request.committed else "abort")
        return {"error_code": code, "producer_id": PRODUCER_ID, "producer_epoch": 1}

    def _list_transactions(self, _request: Any) -> Content:
        state = {"producer_id": PRODUCER_ID, "transaction_state": "Ongoing"}
        states = [{"transactional_id": item, **state} for item in self.transactions]
        return {"unknown_state_filters": ("odd",), "transaction_states": states}

    def _log_dirs(self, _request: Any) -> Content:
        topics = [
            {
                "name": topic,
                "partitions": [{"partition_index": i, "partition_size": 1000 + i} for i in range(len(logs))],
            }
            for topic, logs in self.logs.items()
        ]
        return {
            "results": [{"log_dir": "/logs", "topics": topics, "total_bytes": 10_000, "usable_bytes": 5_000}]
        }

    def _create(self, request: Any) -> Content:
        topics = []
        for topic in request.topics:
            code = ErrorCode.TOPIC_ALREADY_EXISTS if topic.name in self.created else 0
            topics.append({"name": topic.name, "error_code": code, "num_partitions": topic.num_partitions})
        self.created |= {topic.name: topic.num_partitions for topic in request.topics}
        new = {topic.name: [SequencedLog() for _ in range(topic.num_partitions)] for topic in request.topics}
        self.logs = {**self.logs, **new}
        return {"topics": topics}


def _answered(api: Api, answer: Callable[[Any], Content], request: Any) -> Any:
    assert api.response is not None
    return made(api.response, answer(request))


def _always(content: Content, _request: Any) -> Content:
    return content


def _of_partitions(
    topics: Any, asked: str, answer: Callable[[str, Any], Content], answered: str = "partitions"
) -> list[Content]:
    """The parts of a response that are about the topics of a request, by their partitions."""
    return [
        {"name": topic.name, answered: [answer(topic.name, part) for part in getattr(topic, asked)]}
        for topic in topics
    ]


def _described_groups(request: Any) -> Content:
    group = {"group_epoch": 1, "members": [{"member_id": "m", "member_epoch": 1}]}
    return {"groups": [{"group_id": item, **group} for item in request.group_ids]}


def _producers(request: Any) -> Content:
    times = {"last_sequence": 1, "last_timestamp": 1, "current_txn_start_offset": 1}
    state = {"producer_id": PRODUCER_ID, **times}

    def described(_topic: str, index: int) -> Content:
        return {"partition_index": index, "active_producers": [state]}

    return {"topics": _of_partitions(request.topics, "partition_indexes", described)}


def _described_transactions(request: Any) -> Content:
    state = {
        "transaction_state": "Ongoing",
        "transaction_timeout_ms": 60_000,
        "transaction_start_time_ms": 1,
        "producer_id": PRODUCER_ID,
        "topics": [{"topic": "t", "partitions": (0, 1)}],
    }
    return {"transaction_states": [{"transactional_id": item, **state} for item in request.transactional_ids]}


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
        if sent is not None:
            return tell(connection, sent)
        self._send(connection, modern.DIALECT.write_response(api, *answer, header.correlation_id))
        return True


TOPIC: Final = "t"
PARTITION_COUNT: Final = 2
#: The segments of each partition's log: plain messages, and compressed ones.
_LOGS: Final = (
    (
        b"".join(message(b"plain %d" % number) for number in range(3)),
        b"".join(message(b"plain %d" % number) for number in range(3, 6)) + gzipped(b"a", b"b", b"c"),
    ),
    (b"".join(message(b"other %d" % number) for number in range(4)),),
)
#: What a request is of, by its id.
_DIALECTS: Final = {api.key: dialect for dialect in (v07.DIALECT, proposal.DIALECT) for api in dialect.apis}


class LyingProxy(LogServer):
    """Between a 0.7 broker, ``behind``, and its clients."""

    def __init__(self, behind: BrokerServer, liar: Liar) -> None:
        super().__init__({})
        self._behind = behind
        self._liar = liar
        self._upstreams: dict[socket.socket, socket.socket] = {}

    @property
    def discovery(self) -> dict[str, str]:
        """Options by which clients find the proxy."""
        return {"broker.list": f"0:{HOST}:{self.port}"}

    @property
    def honest_discovery(self) -> dict[str, str]:
        """Options by which clients find the broker itself."""
        return {"broker.list": f"0:{HOST}:{self._behind.port}"}

    def _serve(self, connection: socket.socket) -> None:
        with socket.create_connection((HOST, self._behind.port), 60.0) as upstream:
            self._upstreams[connection] = upstream
            super()._serve(connection)

    def _answer(self, connection: socket.socket, frame: memoryview) -> bool:
        upstream = self._upstreams[connection]
        dialect = _DIALECTS[INT16.read(frame, 0)[0]]
        api, header, pos = dialect.read_request_header(frame)
        request, _ = api.request_codec(header.api_version).read(frame, pos)
        upstream.sendall(len(frame).to_bytes(4, "big") + frame)
        if not api.awaits_response(request):
            return True
        body = read_frame(upstream)
        if body is None:
            return False
        correlation_id = header.correlation_id
        response = dialect.read_response(api, body, header.api_version, correlation_id)
        sent = self._liar(Honest(api, header.api_version, response, correlation_id, request))
        return tell(connection, sent or Sent(len(body).to_bytes(4, "big") + body))


@contextmanager
def lying_proxy(liar: Liar) -> Iterator[LyingProxy]:
    """A broker with two logs, and the proxy before it."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafkawire-lies-")))
        for partition, segments in enumerate(_LOGS):
            start_offset = 0
            (folder / f"{TOPIC}-{partition}").mkdir()
            for segment in segments:
                (folder / f"{TOPIC}-{partition}" / f"{start_offset:020}.kafka").write_bytes(segment)
                start_offset += len(segment)
        properties = {
            "brokerid": "0",
            "port": "0",
            "log.dir": str(folder),
            "num.partitions": f"{PARTITION_COUNT}",
            "log.flush.interval": "1",
            "wire.format": "0.7,proposal",
        }
        broker = stack.enter_context(BrokerServer(BrokerConfig.from_properties(properties)))
        yield stack.enter_context(LyingProxy(broker, liar))
