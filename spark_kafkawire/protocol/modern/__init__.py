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
because a declaration takes half a millisecond per message. All names below can be imported from here.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .admin import CREATE_TOPICS, DESCRIBE_LOG_DIRS, DESCRIBE_PRODUCERS
    from .delegation_tokens import (
        CREATE_DELEGATION_TOKEN,
        EXPIRE_DELEGATION_TOKEN,
        RENEW_DELEGATION_TOKEN,
    )
    from .describe_configs import DESCRIBE_CONFIGS
    from .describe_groups import DESCRIBE_GROUPS
    from .fetch import FETCH
    from .group_members import (
        CONSUMER_GROUP_DESCRIBE,
        LIST_GROUPS,
        SHARE_GROUP_DESCRIBE,
        STREAMS_GROUP_DESCRIBE,
    )
    from .group_offsets import FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH
    from .init_producer_id import INIT_PRODUCER_ID
    from .list_offsets import LIST_OFFSETS
    from .metadata import METADATA
    from .negotiation import API_VERSIONS, BEFORE_API_VERSIONS, DIALECT
    from .produce import PRODUCE
    from .sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
    from .transactions import (
        ADD_OFFSETS_TO_TXN,
        ADD_PARTITIONS_TO_TXN,
        DESCRIBE_TRANSACTIONS,
        END_TXN,
        LIST_TRANSACTIONS,
        TXN_OFFSET_COMMIT,
    )

__all__ = [
    "ADD_OFFSETS_TO_TXN",
    "ADD_PARTITIONS_TO_TXN",
    "API_HOMES",
    "API_VERSIONS",
    "BEFORE_API_VERSIONS",
    "CONSUMER_GROUP_DESCRIBE",
    "CREATE_DELEGATION_TOKEN",
    "CREATE_TOPICS",
    "DESCRIBE_CONFIGS",
    "DESCRIBE_GROUPS",
    "DESCRIBE_LOG_DIRS",
    "DESCRIBE_PRODUCERS",
    "DESCRIBE_TRANSACTIONS",
    "DIALECT",
    "END_TXN",
    "EXPIRE_DELEGATION_TOKEN",
    "FETCH",
    "FIND_COORDINATOR",
    "INIT_PRODUCER_ID",
    "LIST_GROUPS",
    "LIST_OFFSETS",
    "LIST_TRANSACTIONS",
    "METADATA",
    "OFFSET_COMMIT",
    "OFFSET_FETCH",
    "PRODUCE",
    "RENEW_DELEGATION_TOKEN",
    "SASL_AUTHENTICATE",
    "SASL_HANDSHAKE",
    "SHARE_GROUP_DESCRIBE",
    "STREAMS_GROUP_DESCRIBE",
    "TXN_OFFSET_COMMIT",
]

#: The module of each API, in the order of their keys.
API_HOMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PRODUCE": "produce",
        "FETCH": "fetch",
        "LIST_OFFSETS": "list_offsets",
        "METADATA": "metadata",
        "OFFSET_COMMIT": "group_offsets",
        "OFFSET_FETCH": "group_offsets",
        "FIND_COORDINATOR": "group_offsets",
        "DESCRIBE_GROUPS": "describe_groups",
        "LIST_GROUPS": "group_members",
        "SASL_HANDSHAKE": "sasl",
        "API_VERSIONS": "negotiation",
        "CREATE_TOPICS": "admin",
        "INIT_PRODUCER_ID": "init_producer_id",
        "ADD_PARTITIONS_TO_TXN": "transactions",
        "ADD_OFFSETS_TO_TXN": "transactions",
        "END_TXN": "transactions",
        "TXN_OFFSET_COMMIT": "transactions",
        "DESCRIBE_CONFIGS": "describe_configs",
        "DESCRIBE_LOG_DIRS": "admin",
        "SASL_AUTHENTICATE": "sasl",
        "CREATE_DELEGATION_TOKEN": "delegation_tokens",
        "RENEW_DELEGATION_TOKEN": "delegation_tokens",
        "EXPIRE_DELEGATION_TOKEN": "delegation_tokens",
        "DESCRIBE_PRODUCERS": "admin",
        "DESCRIBE_TRANSACTIONS": "transactions",
        "LIST_TRANSACTIONS": "transactions",
        "CONSUMER_GROUP_DESCRIBE": "group_members",
        "SHARE_GROUP_DESCRIBE": "group_members",
        "STREAMS_GROUP_DESCRIBE": "group_members",
    }
)
_HOMES: Final = {
    **API_HOMES,
    "BEFORE_API_VERSIONS": "negotiation",
    "DIALECT": "negotiation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
