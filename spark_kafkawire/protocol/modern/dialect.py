"""All APIs of Kafka 0.8 to 4.x that are spoken here."""

from __future__ import annotations

from typing import Final

from ...model import Generation
from ..dialect import Dialect, kafka_headers
from .add_to_txn import ADD_OFFSETS_TO_TXN, ADD_PARTITIONS_TO_TXN
from .api_versions import API_VERSIONS
from .consumer_group_describe import CONSUMER_GROUP_DESCRIBE
from .create_topics import CREATE_TOPICS
from .describe_configs import DESCRIBE_CONFIGS
from .describe_groups import DESCRIBE_GROUPS
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
from .txn_offset_commit import TXN_OFFSET_COMMIT

__all__ = [
    "ADD_OFFSETS_TO_TXN",
    "ADD_PARTITIONS_TO_TXN",
    "API_VERSIONS",
    "BEFORE_API_VERSIONS",
    "CONSUMER_GROUP_DESCRIBE",
    "CREATE_TOPICS",
    "DESCRIBE_CONFIGS",
    "DESCRIBE_GROUPS",
    "DESCRIBE_TRANSACTIONS",
    "DIALECT",
    "END_TXN",
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
    "SASL_AUTHENTICATE",
    "SASL_HANDSHAKE",
    "TXN_OFFSET_COMMIT",
]

DIALECT: Final = Dialect(
    generation=Generation.MODERN,
    correlates=True,
    negotiates=True,
    apis=(
        PRODUCE,
        FETCH,
        LIST_OFFSETS,
        METADATA,
        OFFSET_COMMIT,
        OFFSET_FETCH,
        FIND_COORDINATOR,
        DESCRIBE_GROUPS,
        LIST_GROUPS,
        SASL_HANDSHAKE,
        API_VERSIONS,
        CREATE_TOPICS,
        INIT_PRODUCER_ID,
        ADD_PARTITIONS_TO_TXN,
        ADD_OFFSETS_TO_TXN,
        END_TXN,
        TXN_OFFSET_COMMIT,
        DESCRIBE_CONFIGS,
        SASL_AUTHENTICATE,
        DESCRIBE_TRANSACTIONS,
        LIST_TRANSACTIONS,
        CONSUMER_GROUP_DESCRIBE,
    ),
    headers=kafka_headers,
)
