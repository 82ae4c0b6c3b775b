"""The protocol of modern Kafka (0.8 to 4.x), declared as data: a module for each API or group of APIs.

Every message is declared once, with the versions of each of its fields. A connection starts with
ApiVersions and then uses the highest versions that broker and client have in common::

    connection = Connection(modern.DIALECT, client_id)
    response = ...send ApiVersionsRequest()...
    connection.negotiated(offered(response))
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        ...send it again, this time in a version that the broker knows...

Brokers before 0.10 do not know ApiVersions. Once the client has proof of their age, it sends them only
requests of ``BEFORE_API_VERSIONS``: ``negotiation`` describes the proof.

Offsets count records. Responses come in the order of the requests and carry their correlation ids.

Importing this package imports none of its modules: a process declares only the requests that it sends,
because a declaration takes half a millisecond per message. All APIs can be imported from here, such as
``modern.LIST_OFFSETS``.

Fields of many messages have no text of their own::

    error_code                      0 if there was no error
    error_message                   text of the error; None if the broker gives none
    throttle_time_ms                throttle time because of a quota; 0 if no quota was exceeded (KIP-13)
    topic_id                        id of the topic (KIP-516)
    include_…authorized_operations  True to return the operations that the user may do (KIP-430)
    …authorized_operations          bits of these operations (KIP-430)
"""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..api import Api
    from .negotiation import BEFORE_API_VERSIONS as BEFORE_API_VERSIONS
    from .negotiation import DIALECT as DIALECT

#: Name and key of each API, as in Apache Kafka's ApiKeys.java, and its module.
APIS: Final = (
    ("Produce", 0, "produce"),
    ("Fetch", 1, "fetch"),
    ("ListOffsets", 2, "list_offsets"),
    ("Metadata", 3, "metadata"),
    ("OffsetCommit", 8, "group_offsets"),
    ("OffsetFetch", 9, "group_offsets"),
    ("FindCoordinator", 10, "group_offsets"),
    ("DescribeGroups", 15, "describe_groups"),
    ("ListGroups", 16, "group_members"),
    ("SaslHandshake", 17, "sasl"),
    ("ApiVersions", 18, "negotiation"),
    ("CreateTopics", 19, "admin"),
    ("InitProducerId", 22, "init_producer_id"),
    ("AddPartitionsToTxn", 24, "transactions"),
    ("AddOffsetsToTxn", 25, "transactions"),
    ("EndTxn", 26, "transactions"),
    ("TxnOffsetCommit", 28, "transactions"),
    ("DescribeConfigs", 32, "describe_configs"),
    ("DescribeLogDirs", 35, "admin"),
    ("SaslAuthenticate", 36, "sasl"),
    ("CreateDelegationToken", 38, "delegation_tokens"),
    ("RenewDelegationToken", 39, "delegation_tokens"),
    ("ExpireDelegationToken", 40, "delegation_tokens"),
    ("DescribeProducers", 61, "admin"),
    ("DescribeTransactions", 65, "transactions"),
    ("ListTransactions", 66, "transactions"),
    ("ConsumerGroupDescribe", 69, "group_members"),
    ("ShareGroupDescribe", 77, "group_members"),
    ("StreamsGroupDescribe", 89, "group_members"),
)
#: The module of each API, by the name of its declaration.
API_HOMES: Final = {re.sub(r"\B[A-Z]", r"_\g<0>", name).upper(): home for name, _, home in APIS}
_HOMES: Final = {**API_HOMES, "BEFORE_API_VERSIONS": "negotiation", "DIALECT": "negotiation"}
_KEYS: Final = {name: key for name, key, _ in APIS}


def name_and_key(name: str) -> tuple[str, int]:
    """Name and key of an API."""
    return name, _KEYS[name]


def __getattr__(name: str) -> Api:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    declared: Api = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    return declared
