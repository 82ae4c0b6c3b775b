"""Limits of response sizes, and the values of fields that several messages of modern Kafka share."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

#: Longest response that describes topics or partitions, bytes: enough for a million partitions.
RESPONSE_BYTES_MAX: Final = 64 << 20
#: Longest response of a fixed kind, bytes; some of them come before the broker is authenticated.
SMALL_RESPONSE_BYTES_MAX: Final = 1 << 20
#: Largest record batch unless a request allows another, bytes. Brokers take 1 MiB as they come
#: (``message.max.bytes``); a Fetch response holds one whole batch, however small its limits.
BATCH_BYTES_MAX: Final = 64 << 20
#: Room for the fields around the records of one partition in a Fetch response, bytes: 64 for fixed fields,
#: then tagged fields, and some thousand aborted transactions of 16 bytes.
FETCH_PARTITION_BYTES_MAX: Final = 64 << 10

#: Topic id of a topic that has none, or whose id is not known.
NO_TOPIC_ID: Final = uuid.UUID(int=0)

#: ``acks`` of Produce: the broker does not answer.
ACKS_NONE: Final = 0
#: ``acks`` of Produce: the leader has the records.
ACKS_LEADER: Final = 1
#: ``acks`` of Produce: all replicas that are in sync have the records.
ACKS_ALL: Final = -1

#: Isolation level of Fetch and ListOffsets: all records.
READ_UNCOMMITTED: Final = 0
#: Isolation level of Fetch and ListOffsets: up to the first open transaction, with the list of aborted ones.
READ_COMMITTED: Final = 1


def response_bytes_max(_: object) -> int:
    """The bound of responses that grow with the number of topics and partitions."""
    return RESPONSE_BYTES_MAX


def small_response_bytes_max(_: object) -> int:
    """Size limit of responses whose size does not depend on the cluster."""
    return SMALL_RESPONSE_BYTES_MAX


def with_names(topics: Iterable[Any], asked: Iterable[Any]) -> list[Any]:
    """Topics of a response with the names that the request gives for their ids: from some version on
    brokers answer with ids alone (KIP-516). A topic that was not requested gets its id as its name."""
    names = {topic.topic_id: topic.name for topic in asked if topic.topic_id != NO_TOPIC_ID}
    return [
        item
        if item.name or item.topic_id == NO_TOPIC_ID
        else replace(item, name=names.get(item.topic_id, str(item.topic_id)))
        for item in topics
    ]


def have_ids(topics: Iterable[Any]) -> bool:
    """True if all topics of a request have their ids, so that it can be sent in versions without names."""
    return all(topic.topic_id != NO_TOPIC_ID for topic in topics)
