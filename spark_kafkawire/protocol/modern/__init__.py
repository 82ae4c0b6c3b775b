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

Tagged fields that nothing here reads or sends are not declared, and are skipped. Among them are the current
leaders that refusals name (KIP-951): this package requests metadata when a leader has changed.

Source of an API: its ``…Request.json`` and ``…Response.json`` of Apache Kafka.

Fields of many messages have no text of their own::

    error_code                      0 if there was no error
    error_message                   text of the error; None if the broker gives none
    throttle_time_ms                throttle time because of a quota; 0 if no quota was exceeded (KIP-13)
    topic_id                        id of the topic (KIP-516)
    …leader_epoch                   epoch of a leader; -1 for none (KIP-320)
    log_start_offset                first offset of the log; -1 if unknown (KIP-107)
    …metadata                       text that is stored with a committed offset
    …instance_id                    ``group.instance.id`` of a static member; None for others (KIP-345)
    member_epoch                    epoch of the assignment that a member has taken over (KIP-848)
    group_epoch                     rises when members or what they read change (KIP-848)
    replica_id                      -1 for consumers
    isolation_level                 ``READ_UNCOMMITTED`` or ``READ_COMMITTED`` (KIP-98)
    session_…                       fetch session; the id 0 and the epoch -1 for none (KIP-227)
    transaction_version             protocol of the transaction: 1, or 2 (KIP-890); it is not sent
    include_…authorized_operations  True to return the operations that the user may do (KIP-430)
    …authorized_operations          bits of these operations (KIP-430)
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..api import Api
    from ..responses import Faults
    from .negotiation import BEFORE_API_VERSIONS as BEFORE_API_VERSIONS
    from .negotiation import DIALECT as DIALECT

#: Name and key of each API, as in Apache Kafka's ApiKeys.java, its module, the first and the last version
#: that this package knows, the first flexible one, and the first in which throttled responses come at once.
APIS: Final = (
    ("Produce", 0, "produce", 0, 13, 9, 6),
    ("Fetch", 1, "fetch", 0, 18, 12, 8),
    ("ListOffsets", 2, "list_offsets", 0, 11, 6, 3),
    ("Metadata", 3, "metadata", 0, 13, 9, 6),
    ("OffsetCommit", 8, "group_offsets", 1, 10, 8, 4),
    ("OffsetFetch", 9, "group_offsets", 1, 10, 6, 4),
    ("FindCoordinator", 10, "group_offsets", 0, 4, 3, 2),
    ("DescribeGroups", 15, "describe_groups", 0, 6, 5, 2),
    ("ListGroups", 16, "group_members", 0, 5, 3, 2),
    ("SaslHandshake", 17, "sasl", 0, 1, None, None),
    ("ApiVersions", 18, "negotiation", 0, 5, 3, 2),
    ("CreateTopics", 19, "admin", 2, 7, 5, 3),
    ("InitProducerId", 22, "produce", 0, 6, 2, 1),
    ("AddPartitionsToTxn", 24, "transactions", 0, 3, 3, 1),
    ("AddOffsetsToTxn", 25, "transactions", 0, 4, 3, 1),
    ("EndTxn", 26, "transactions", 0, 5, 3, 1),
    ("TxnOffsetCommit", 28, "transactions", 0, 6, 3, 1),
    ("DescribeConfigs", 32, "describe_configs", 0, 4, 4, 2),
    ("DescribeLogDirs", 35, "admin", 1, 5, 2, 1),
    ("SaslAuthenticate", 36, "sasl", 0, 2, 2, None),
    ("CreateDelegationToken", 38, "admin", 1, 3, 2, 1),
    ("RenewDelegationToken", 39, "admin", 1, 2, 2, 1),
    ("ExpireDelegationToken", 40, "admin", 1, 2, 2, 1),
    ("DescribeProducers", 61, "admin", 0, 0, 0, 0),
    ("DescribeTransactions", 65, "transactions", 0, 0, 0, 0),
    ("ListTransactions", 66, "transactions", 0, 2, 0, 0),
    ("ConsumerGroupDescribe", 69, "group_members", 0, 1, 0, 0),
    ("ShareGroupDescribe", 77, "group_members", 1, 1, 1, 0),
    ("StreamsGroupDescribe", 89, "group_members", 0, 0, 0, 0),
)
#: The module of each API, by the name of its declaration.
API_HOMES: Final = {re.sub(r"\B[A-Z]", r"_\g<0>", name).upper(): home for name, _, home, *_ in APIS}
_HOMES: Final = {**API_HOMES, "BEFORE_API_VERSIONS": "negotiation", "DIALECT": "negotiation"}
_ROWS: Final = {row[0]: row for row in APIS}


def name_and_key(name: str) -> tuple[str, int]:
    """Name and key of an API."""
    return name, _ROWS[name][1]


def declare(
    request: type[Any],
    response: type[Any],
    response_bytes_max: Callable[[Any], int],
    faults: Callable[[Any, Any, int], Faults],
    **others: Any,
) -> Api:
    """The API of a request, by its row of ``APIS``; ``others`` are further arguments of ``Api``."""
    from ..api import Api, VersionRange

    row = _ROWS[request.__name__.removesuffix("Request")]
    name, key, _, first, last, flexible_since, throttles_since = row
    return Api(
        *(name, key, request, response, response_bytes_max, VersionRange(first, last), flexible_since),
        faults=faults,
        throttles_since=throttles_since,
        **others,
    )


def __getattr__(name: str) -> Api:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    declared: Api = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    return declared
