"""Names and keys of the APIs of modern Kafka, for callers that only check if a broker offers one.

A process declares only the messages that it sends: see ``dialect``.

Source: Apache Kafka's ApiKeys.java.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class ApiName(NamedTuple):
    """Name of an API as brokers log it, and its key as requests hold it."""

    name: str
    key: int


PRODUCE: Final = ApiName("Produce", 0)
FETCH: Final = ApiName("Fetch", 1)
LIST_OFFSETS: Final = ApiName("ListOffsets", 2)
METADATA: Final = ApiName("Metadata", 3)
OFFSET_COMMIT: Final = ApiName("OffsetCommit", 8)
OFFSET_FETCH: Final = ApiName("OffsetFetch", 9)
FIND_COORDINATOR: Final = ApiName("FindCoordinator", 10)
DESCRIBE_GROUPS: Final = ApiName("DescribeGroups", 15)
LIST_GROUPS: Final = ApiName("ListGroups", 16)
SASL_HANDSHAKE: Final = ApiName("SaslHandshake", 17)
API_VERSIONS: Final = ApiName("ApiVersions", 18)
CREATE_TOPICS: Final = ApiName("CreateTopics", 19)
INIT_PRODUCER_ID: Final = ApiName("InitProducerId", 22)
ADD_PARTITIONS_TO_TXN: Final = ApiName("AddPartitionsToTxn", 24)
ADD_OFFSETS_TO_TXN: Final = ApiName("AddOffsetsToTxn", 25)
END_TXN: Final = ApiName("EndTxn", 26)
TXN_OFFSET_COMMIT: Final = ApiName("TxnOffsetCommit", 28)
DESCRIBE_CONFIGS: Final = ApiName("DescribeConfigs", 32)
DESCRIBE_LOG_DIRS: Final = ApiName("DescribeLogDirs", 35)
SASL_AUTHENTICATE: Final = ApiName("SaslAuthenticate", 36)
CREATE_DELEGATION_TOKEN: Final = ApiName("CreateDelegationToken", 38)
RENEW_DELEGATION_TOKEN: Final = ApiName("RenewDelegationToken", 39)
EXPIRE_DELEGATION_TOKEN: Final = ApiName("ExpireDelegationToken", 40)
DESCRIBE_PRODUCERS: Final = ApiName("DescribeProducers", 61)
DESCRIBE_TRANSACTIONS: Final = ApiName("DescribeTransactions", 65)
LIST_TRANSACTIONS: Final = ApiName("ListTransactions", 66)
CONSUMER_GROUP_DESCRIBE: Final = ApiName("ConsumerGroupDescribe", 69)
SHARE_GROUP_DESCRIBE: Final = ApiName("ShareGroupDescribe", 77)
STREAMS_GROUP_DESCRIBE: Final = ApiName("StreamsGroupDescribe", 89)
