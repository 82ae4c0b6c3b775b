"""Responses of one broker that leads every partition, without any socket.

Honest and complete enough for librdkafka, kafka-python and this package to read and to write: the
peers that lie do so with its answers, the benchmarks serve their logs with it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, Final

from spark_kafkawire.model import Broker
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api, VersionRange
from spark_kafkawire.protocol.modern import (
    describe_configs,
    describe_groups,
    fetch,
    group_offsets,
    list_offsets,
    metadata,
    produce,
    transactions,
)
from spark_kafkawire.protocol.modern.error_codes import ErrorCode as Code
from spark_kafkawire.protocol.modern.negotiation import ApiVersionsRequest, ApiVersionsResponse
from spark_kafkawire.protocol.primitives import Array
from spark_kafkawire.protocol.schema import Struct

from .made_messages import Content, made
from .memory_log import Log

#: All that this package knows of the protocol.
OFFERED: Final[Mapping[int, VersionRange]] = {api.key: api.versions for api in modern.DIALECT.apis}
PRODUCER_ID: Final = 4000
LEADER_EPOCH: Final = 5


def in_version(message: Any, version: int) -> Any:
    """A message without what the version cannot carry, so that one answer serves all versions."""
    if isinstance(message, tuple):
        return tuple(in_version(item, version) for item in message)
    if not is_dataclass(message) or isinstance(message, type):
        return message
    kept = {
        name: in_version(getattr(message, name), version) if nests else getattr(message, name)
        for name, nests in _fields(type(message), version)
    }
    return type(message)(**kept)


@cache
def _fields(message: type[Any], version: int) -> list[tuple[str, bool]]:
    """The names of the fields that a version of the message has, and whether they hold messages."""
    wired = [field for field in fields(message) if "wire" in field.metadata]
    return [
        (field.name, isinstance(field.metadata["wire"].type, Array | Struct))
        for field in wired
        if field.metadata["wire"].is_in(version)
    ]


#: Requests that have the ids of topics in place of their names in newer versions.
_BY_ID: Final = (
    produce.ProduceRequest,
    group_offsets.OffsetCommitRequest,
    group_offsets.OffsetFetchRequest,
    transactions.TxnOffsetCommitRequest,
)


def _of_topics(message: Any, change: Callable[[Any], Mapping[str, Any]]) -> Any:
    """A message in which all topics that have an id are changed."""
    if isinstance(message, tuple):
        return tuple(_of_topics(item, change) for item in message)
    if not is_dataclass(message) or isinstance(message, type):
        return message
    nested = [field.name for field in fields(message) if isinstance(getattr(message, field.name), tuple)]
    new = {name: _of_topics(getattr(message, name), change) for name in nested}
    return replace(message, **new, **(change(message) if hasattr(message, "topic_id") else {}))


def _refuse(*about: Any) -> Any:
    raise NotImplementedError(about)


class LogBroker:
    """Answers for the topics in ``logs``: name to the logs of its partitions."""

    def __init__(
        self, broker: Broker, logs: Mapping[str, Sequence[Log]], offered: Mapping[int, VersionRange] = OFFERED
    ) -> None:
        self.broker = broker
        self.logs = logs
        self.offered = offered
        #: The ids of topics that have been recreated, by topic.
        self.topic_ids: dict[str, uuid.UUID] = {}
        #: The settings of topics that are no defaults, by topic.
        self.configs: dict[str, dict[str, str]] = {}
        #: What answers a request, by its type, and what makes a part of a response, by the part's.
        self._answers: dict[type[Any], Callable[..., Any]] = {
            ApiVersionsRequest: self._api_versions,
            metadata.MetadataRequest: self._metadata,
            list_offsets.ListOffsetsRequest: self._list_offsets,
            fetch.FetchRequest: self._fetch,
            produce.ProduceRequest: self._produce,
            produce.InitProducerIdRequest: self._init_producer_id,
            group_offsets.FindCoordinatorRequest: self._find_coordinator,
            group_offsets.OffsetFetchRequest: self._offset_fetch,
            describe_groups.DescribeGroupsRequest: self._describe_groups,
            describe_configs.DescribeConfigsRequest: self._describe_configs,
            metadata.MetadataTopic: self.topic,
            list_offsets.ListOffsetsPartitionResponse: self._listed,
            group_offsets.OffsetFetchTopicResponse: self._committed,
            describe_configs.ResourceConfigs: self._configs_of,
        }

    def answer_with(self, kind: type[Any], answer: Callable[..., Any]) -> Callable[..., Any]:
        """Answer requests of that type with ``answer``, or make such parts of responses with it.

        Parts are ``MetadataTopic`` (of a topic's name), ``ListOffsetsPartitionResponse`` (of a topic's name
        and the partition of the request), ``OffsetFetchTopicResponse`` (of the topics of a request: a tuple)
        and ``ResourceConfigs`` (of the resource of the request). Returns what did so before: it refuses
        requests that this broker does not know.
        """
        before = self._answers.get(kind, _refuse)
        self._answers[kind] = answer
        return before

    def alter(self, kind: type[Any], change: Callable[..., Any]) -> list[Any]:
        """Answer with ``change`` of the honest answer or part and of what was asked. Returns the latter."""
        asked: list[Any] = []

        def altered(*about: Any) -> Any:
            asked.append(about[-1])
            return change(honest(*about), *about)

        honest = self.answer_with(kind, altered)
        return asked

    def answer(self, api: Api, version: int, request: Any) -> tuple[Any, int] | None:
        """The response and the version that it is written in; None where no response is due or possible."""
        if not api.awaits_response(request):
            self._answers[type(request)](request)
            return None
        if api is modern.API_VERSIONS and version not in self.offered[api.key]:
            return in_version(self._api_versions(request, Code.UNSUPPORTED_VERSION), 0), 0
        result = self._answers.get(type(request))
        if result is None:
            return None
        if not isinstance(request, _BY_ID):
            return in_version(result(request), version), version
        # Whoever answers sees names, and need not give ids.
        response = result(_of_topics(request, lambda topic: {"name": self._name(topic)}))
        response = _of_topics(response, lambda topic: {"topic_id": self.topic_id(topic.name)})
        return in_version(response, version), version

    def topic_id(self, topic: str) -> uuid.UUID:
        """The id of a topic; that of one that was not recreated follows from its name."""
        return self.topic_ids.get(topic) or uuid.uuid5(uuid.NAMESPACE_OID, topic)

    def _api_versions(self, _request: Any, code: int = 0) -> ApiVersionsResponse:
        keys = [
            {"api_key": key, "min_version": versions.min, "max_version": versions.max}
            for key, versions in self.offered.items()
        ]
        result: ApiVersionsResponse = made(ApiVersionsResponse, {"error_code": code, "api_keys": keys})
        return result

    def _metadata(self, request: metadata.MetadataRequest) -> Any:
        # The empty list asks for all in version 0, and for none later, which nobody does.
        names = self.logs if not request.topics else [self._name(topic) for topic in request.topics]
        content = {
            "brokers": [{**self._us, "rack": None}],
            "cluster_id": "log-broker",
            "controller_id": self.broker.id,
            "topics": [self._answers[metadata.MetadataTopic](name) for name in names],
        }
        return made(metadata.MetadataResponse, content)

    @property
    def _us(self) -> dict[str, Any]:
        return {"node_id": self.broker.id, "host": self.broker.host, "port": self.broker.port}

    def _name(self, topic: Any) -> str:
        if getattr(topic, "name", None):
            return str(topic.name)
        return next((name for name in self.logs if self.topic_id(name) == topic.topic_id), "")

    def topic(self, name: str) -> metadata.MetadataTopic:
        """The honest description of a topic."""
        if name not in self.logs:
            content: Content = {"error_code": Code.UNKNOWN_TOPIC_OR_PARTITION, "name": name}
        else:
            us = (self.broker.id,)
            led = {"leader_id": us[0], "leader_epoch": LEADER_EPOCH, "replica_nodes": us, "isr_nodes": us}
            partitions = [{"partition_index": index, **led} for index in range(len(self.logs[name]))]
            content = {"name": name, "topic_id": self.topic_id(name), "partitions": partitions}
        result: metadata.MetadataTopic = made(metadata.MetadataTopic, content)
        return result

    def _list_offsets(self, request: list_offsets.ListOffsetsRequest) -> Any:
        listed = self._answers[list_offsets.ListOffsetsPartitionResponse]
        topics = [
            {"name": topic.name, "partitions": [listed(topic.name, asked) for asked in topic.partitions]}
            for topic in request.topics
        ]
        return made(list_offsets.ListOffsetsResponse, {"topics": topics})

    def _listed(
        self, topic: str, asked: list_offsets.ListOffsetsPartition
    ) -> list_offsets.ListOffsetsPartitionResponse:
        if not self._has(topic, asked.partition_index):
            return list_offsets.ListOffsetsPartitionResponse(
                partition_index=asked.partition_index, error_code=Code.UNKNOWN_TOPIC_OR_PARTITION
            )
        stop_offset = self.logs[topic][asked.partition_index].stop_offset
        offset = stop_offset if asked.timestamp == list_offsets.LATEST_TIMESTAMP else 0
        return list_offsets.ListOffsetsPartitionResponse(
            partition_index=asked.partition_index,
            error_code=0,
            old_style_offsets=(offset,),
            offset=offset,
            leader_epoch=LEADER_EPOCH,
        )

    def _has(self, topic: str, partition: int) -> bool:
        return 0 <= partition < len(self.logs.get(topic, ()))

    def _fetch(self, request: fetch.FetchRequest) -> Any:
        left, topics = request.max_bytes, []
        for topic in request.topics:
            name, partitions = topic.topic or self._name(topic), []
            for asked in topic.partitions:
                response = self._fetched(name, asked, left)
                left = max(0, left - len(response.records or b""))
                partitions.append(response)
            topics.append({"topic": name, "topic_id": topic.topic_id, "partitions": partitions})
        return made(fetch.FetchResponse, {"responses": topics})

    def _fetched(self, topic: str, asked: fetch.FetchPartition, left: int) -> fetch.FetchPartitionResponse:
        if not self._has(topic, asked.partition):
            return fetch.FetchPartitionResponse(
                partition_index=asked.partition,
                error_code=Code.UNKNOWN_TOPIC_OR_PARTITION,
                high_watermark=-1,
                records=b"",
            )
        log = self.logs[topic][asked.partition]
        in_range = 0 <= asked.fetch_offset <= log.stop_offset
        return fetch.FetchPartitionResponse(
            partition_index=asked.partition,
            error_code=0 if in_range else Code.OFFSET_OUT_OF_RANGE,
            high_watermark=log.stop_offset,
            last_stable_offset=log.stop_offset,
            log_start_offset=0,
            records=log.read(asked.fetch_offset, min(asked.partition_max_bytes, left))
            if in_range and left
            else b"",
        )

    def _produce(self, request: produce.ProduceRequest) -> Any:
        responses = [
            {
                "name": topic.name,
                "partition_responses": [self._produced(topic.name, item) for item in topic.partition_data],
            }
            for topic in request.topic_data
        ]
        return made(produce.ProduceResponse, {"responses": responses})

    def _produced(self, topic: str, asked: produce.ProducePartition) -> produce.ProducePartitionResponse:
        if not self._has(topic, asked.index):
            return produce.ProducePartitionResponse(
                index=asked.index, error_code=Code.UNKNOWN_TOPIC_OR_PARTITION, base_offset=-1
            )
        base_offset = self.logs[topic][asked.index].append(asked.records or b"")
        return produce.ProducePartitionResponse(index=asked.index, error_code=0, base_offset=base_offset)

    def _init_producer_id(self, _request: Any) -> produce.InitProducerIdResponse:
        return produce.InitProducerIdResponse(
            throttle_time_ms=0, error_code=0, producer_id=PRODUCER_ID, producer_epoch=0
        )

    def _find_coordinator(self, request: group_offsets.FindCoordinatorRequest) -> Any:
        coordinators = [{"key": key, **self._us} for key in request.coordinator_keys]
        return made(group_offsets.FindCoordinatorResponse, {**self._us, "coordinators": coordinators})

    def _describe_configs(self, request: describe_configs.DescribeConfigsRequest) -> Any:
        described = self._answers[describe_configs.ResourceConfigs]
        results = [described(resource) for resource in request.resources]
        return made(describe_configs.DescribeConfigsResponse, {"results": results})

    def _configs_of(self, asked: describe_configs.DescribedResource) -> Any:
        topic = asked.resource_name
        configs = {"cleanup.policy": "delete", **self.configs.get(topic, {})}
        content = {
            "error_code": 0 if topic in self.logs else Code.UNKNOWN_TOPIC_OR_PARTITION,
            "error_message": None,
            "resource_type": asked.resource_type,
            "resource_name": topic,
            "configs": [
                {"name": name, "value": value, "read_only": False, "is_sensitive": False}
                for name, value in configs.items()
                if asked.configuration_keys is None or name in asked.configuration_keys
            ],
        }
        return made(describe_configs.ResourceConfigs, content)

    def _describe_groups(
        self, request: describe_groups.DescribeGroupsRequest
    ) -> describe_groups.DescribeGroupsResponse:
        """Every group has one member."""
        groups = [{"group_id": item, "members": [{"member_id": "m"}]} for item in request.groups]
        result: describe_groups.DescribeGroupsResponse = made(
            describe_groups.DescribeGroupsResponse, {"groups": groups}
        )
        return result

    def _offset_fetch(self, request: group_offsets.OffsetFetchRequest) -> Any:
        committed = self._answers[group_offsets.OffsetFetchTopicResponse]
        groups = [{"group_id": item.group_id, "topics": committed(item.topics)} for item in request.groups]
        return made(
            group_offsets.OffsetFetchResponse, {"topics": committed(request.topics), "groups": groups}
        )

    def _committed(self, topics: tuple[group_offsets.OffsetFetchTopic, ...] | None) -> tuple[Any, ...]:
        """Every group has committed offset 1 everywhere."""
        asked = (
            {name: range(len(logs)) for name, logs in self.logs.items()}
            if topics is None
            else {topic.name: topic.partition_indexes for topic in topics}
        )
        return tuple(
            made(
                group_offsets.OffsetFetchTopicResponse,
                {
                    "name": name,
                    "partitions": [{"partition_index": item, "committed_offset": 1} for item in indexes],
                },
            )
            for name, indexes in asked.items()
        )
