"""Fetch requests of modern Kafka for ranges of many partitions, and the parts of their responses.

A broker fills a response in the order of the request, up to ``max_bytes``. Only the first records come whole
even if they exceed a limit (KIP-74): others are left out, and their partition looks empty. So a part without
records proves something only if it is the first, or if no part has records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from spark_kafkawire.options import FetchOptions
from spark_kafkawire.protocol.connection import Response
from spark_kafkawire.protocol.modern.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
)

from ..task import EmptyFetch

#: Sum of the limits of all partitions in one request, bytes. Brokers before Fetch version 3 have no other
#: limit of a response.
_LIMITS_BYTES_MAX: Final = 64 << 20

#: A partition in a request or response: name or id of the topic, and index.
_Key = tuple[str | UUID, int]


class PackedFetches:
    """``Packing`` of Fetch."""

    bytes_max = _LIMITS_BYTES_MAX

    def __init__(self, options: FetchOptions) -> None:
        self._options = options
        #: Limits of partitions whose first batch is larger than the usual one.
        self._raised: dict[_Key, int] = {}

    def bytes_of(self, request: FetchRequest) -> int:
        return self._limit(request)

    def packed(self, requests: Sequence[FetchRequest]) -> FetchRequest:
        topics: dict[tuple[str, UUID], list[FetchPartition]] = {}
        for request in requests:
            [topic] = request.topics
            [partition] = topic.partitions
            limit = self._limit(request)
            if limit != partition.partition_max_bytes:
                partition = replace(partition, partition_max_bytes=limit)
            topics.setdefault((topic.topic, topic.topic_id), []).append(partition)
        return replace(
            requests[0],
            max_bytes=self._options.fetch_bytes,
            topics=tuple(
                FetchTopic(topic=name, topic_id=topic_id, partitions=tuple(partitions))
                for (name, topic_id), partitions in topics.items()
            ),
        )

    def parts(self, response: Response, requests: Sequence[FetchRequest]) -> list[Response | None]:
        body: FetchResponse = response.body
        if not body.responses and not body.error_code:
            throttle_s = body.throttle_time_ms / 1000
            raise EmptyFetch(
                f"Fetch: the broker throttles this client for another {throttle_s:g} s: its quota is used "
                "up; raise it, or retries"
            )
        # By name or by id, as the version has it: the other one is the same for all topics.
        found: dict[_Key, FetchPartitionResponse] = {
            (topic.topic or topic.topic_id, partition.partition_index): partition
            for topic in body.responses
            for partition in topic.partitions
        }
        came = sum(len(partition.records or b"") for partition in found.values())
        parts: list[Response | None] = []
        for request in requests:
            own = found.get(_key(request)) or found.get(_key_by_id(request))
            if own is not None and parts and came and not (own.records or own.error_code):
                self._raise_limit(request, came)
                parts.append(None)
                continue
            topics = () if own is None else (FetchTopicResponse(partitions=(own,)),)
            parts.append(Response(request, replace(body, responses=topics), response.frame))
        return parts

    def _limit(self, request: FetchRequest) -> int:
        return max(self._raised.get(_key(request), 0), request.topics[0].partitions[0].partition_max_bytes)

    def _raise_limit(self, request: FetchRequest, came: int) -> None:
        """Raise the limit of a partition if the response had room for it: its first batch is larger."""
        limit = self._limit(request)
        if came + limit <= self._options.fetch_bytes:
            self._raised[_key(request)] = min(2 * limit, self._options.fetch_bytes)


def _key(request: FetchRequest) -> _Key:
    [topic] = request.topics
    return topic.topic, topic.partitions[0].partition


def _key_by_id(request: FetchRequest) -> _Key:
    [topic] = request.topics
    return topic.topic_id, topic.partitions[0].partition
