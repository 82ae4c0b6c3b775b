"""The protocol of modern Kafka (0.8 to 4.x), declared as data: a module for each API or group of APIs.

Every message is declared once, with the versions of each of its fields. A connection starts with
ApiVersions and then uses the highest versions that broker and client have in common::

    connection = Connection(modern.DIALECT, client_id)
    response = ...send ApiVersionsRequest()...
    connection.negotiated(offered(response))
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        ...send it again, this time in a version that the broker knows...

Brokers before 0.10 do not know ApiVersions. Once the client has proof of their age, it sends them only
requests of ``BEFORE_API_VERSIONS``: ``old_brokers`` describes the proof.

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
    from .add_to_txn import ADD_OFFSETS_TO_TXN, ADD_PARTITIONS_TO_TXN
    from .api_versions import API_VERSIONS
    from .consumer_group_describe import CONSUMER_GROUP_DESCRIBE
    from .create_topics import CREATE_TOPICS
    from .delegation_tokens import (
        CREATE_DELEGATION_TOKEN,
        EXPIRE_DELEGATION_TOKEN,
        RENEW_DELEGATION_TOKEN,
    )
    from .describe_configs import DESCRIBE_CONFIGS
    from .describe_groups import DESCRIBE_GROUPS
    from .describe_log_dirs import DESCRIBE_LOG_DIRS
    from .describe_producers import DESCRIBE_PRODUCERS
    from .dialect import DIALECT
    from .end_txn import END_TXN
    from .fetch import FETCH
    from .find_coordinator import FIND_COORDINATOR
    from .init_producer_id import INIT_PRODUCER_ID
    from .list_groups import LIST_GROUPS
    from .list_offsets import LIST_OFFSETS
    from .list_transactions import DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS
    from .metadata import METADATA
    from .offset_commit import OFFSET_COMMIT
    from .offset_fetch import OFFSET_FETCH
    from .old_brokers import BEFORE_API_VERSIONS
    from .produce import PRODUCE
    from .sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
    from .share_group_describe import SHARE_GROUP_DESCRIBE
    from .streams_group_describe import STREAMS_GROUP_DESCRIBE
    from .txn_offset_commit import TXN_OFFSET_COMMIT

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
        "OFFSET_COMMIT": "offset_commit",
        "OFFSET_FETCH": "offset_fetch",
        "FIND_COORDINATOR": "find_coordinator",
        "DESCRIBE_GROUPS": "describe_groups",
        "LIST_GROUPS": "list_groups",
        "SASL_HANDSHAKE": "sasl",
        "API_VERSIONS": "api_versions",
        "CREATE_TOPICS": "create_topics",
        "INIT_PRODUCER_ID": "init_producer_id",
        "ADD_PARTITIONS_TO_TXN": "add_to_txn",
        "ADD_OFFSETS_TO_TXN": "add_to_txn",
        "END_TXN": "end_txn",
        "TXN_OFFSET_COMMIT": "txn_offset_commit",
        "DESCRIBE_CONFIGS": "describe_configs",
        "DESCRIBE_LOG_DIRS": "describe_log_dirs",
        "SASL_AUTHENTICATE": "sasl",
        "CREATE_DELEGATION_TOKEN": "delegation_tokens",
        "RENEW_DELEGATION_TOKEN": "delegation_tokens",
        "EXPIRE_DELEGATION_TOKEN": "delegation_tokens",
        "DESCRIBE_PRODUCERS": "describe_producers",
        "DESCRIBE_TRANSACTIONS": "list_transactions",
        "LIST_TRANSACTIONS": "list_transactions",
        "CONSUMER_GROUP_DESCRIBE": "consumer_group_describe",
        "SHARE_GROUP_DESCRIBE": "share_group_describe",
        "STREAMS_GROUP_DESCRIBE": "streams_group_describe",
    }
)
_HOMES: Final = {
    **API_HOMES,
    "BEFORE_API_VERSIONS": "old_brokers",
    "DIALECT": "dialect",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
