"""What the error codes of brokers from 0.8 on mean, and what to do about each.

Source: Apache Kafka's Errors.java. Kafka retries what is marked here as RETRY, BACK_OFF or REFRESH,
and neither BROKER_NOT_AVAILABLE nor REBOOTSTRAP_REQUIRED: new metadata is the cure for both.
"""

from __future__ import annotations

from ...errors import Action, BrokerError
from ..error_table import ErrorTable


class ErrorCode(ErrorTable):
    """The error codes, in the order of their numbers."""

    UNKNOWN_SERVER_ERROR = -1, Action.FAIL, "the broker failed in a way it has no code for; see its log"
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1, Action.DATA_LOSS, "the offset is not in the log"
    CORRUPT_MESSAGE = 2, Action.RETRY, "the broker found a damaged record"
    UNKNOWN_TOPIC_OR_PARTITION = 3, Action.REFRESH, "the broker has no such partition"
    INVALID_FETCH_SIZE = 4, Action.FIX_OPTION, "the broker refuses the fetch size"
    LEADER_NOT_AVAILABLE = 5, Action.REFRESH, "no broker leads the partition at the moment"
    NOT_LEADER_OR_FOLLOWER = 6, Action.REFRESH, "another broker leads the partition now"
    REQUEST_TIMED_OUT = 7, Action.BACK_OFF, "the broker waited in vain for other brokers"
    BROKER_NOT_AVAILABLE = 8, Action.REFRESH, "the broker is not alive"
    REPLICA_NOT_AVAILABLE = 9, Action.REFRESH, "the broker does not have the replica"
    MESSAGE_TOO_LARGE = 10, Action.FIX_OPTION, "a batch is larger than the topic's max.message.bytes"
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12, Action.FIX_OPTION, "the text beside a committed offset is too long"
    NETWORK_EXCEPTION = 13, Action.BACK_OFF, "the broker lost its connection to another one"
    COORDINATOR_LOAD_IN_PROGRESS = 14, Action.BACK_OFF, "the group's coordinator is starting"
    COORDINATOR_NOT_AVAILABLE = 15, Action.REFRESH, "the group has no coordinator at the moment"
    NOT_COORDINATOR = 16, Action.REFRESH, "another broker coordinates the group now"
    INVALID_TOPIC_EXCEPTION = 17, Action.FIX_OPTION, "the broker refuses the topic name"
    RECORD_LIST_TOO_LARGE = 18, Action.FIX_OPTION, "a batch is larger than the topic's segment.bytes"
    NOT_ENOUGH_REPLICAS = 19, Action.BACK_OFF, "fewer replicas are in sync than min.insync.replicas"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, Action.BACK_OFF, "fewer replicas than min.insync.replicas followed"
    INVALID_REQUIRED_ACKS = 21, Action.FIX_OPTION, "the broker refuses this acks"
    ILLEGAL_GENERATION = 22, Action.FAIL, "the group is in another generation"
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24, Action.FIX_OPTION, "the broker refuses the group id"
    UNKNOWN_MEMBER_ID = 25, Action.FAIL, "the group is in use by members, and this client is none"
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27, Action.FAIL, "the group is in use by members that rebalance"
    INVALID_COMMIT_OFFSET_SIZE = 28, Action.FAIL, "the commit is larger than the broker stores"
    TOPIC_AUTHORIZATION_FAILED = 29, Action.FAIL, "the user may not do this to the topic"
    GROUP_AUTHORIZATION_FAILED = 30, Action.FAIL, "the user may not do this to the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, Action.FAIL, "the user may not do this to the cluster"
    INVALID_TIMESTAMP = 32, Action.FIX_DATA, "a timestamp is further from now than the topic allows"
    UNSUPPORTED_SASL_MECHANISM = 33, Action.FIX_OPTION, "the broker does not have this kafka.sasl.mechanism"
    ILLEGAL_SASL_STATE = 34, Action.FIX_OPTION, "the broker wants another kafka.security.protocol"
    UNSUPPORTED_VERSION = 35, Action.FAIL, "the broker does not know this version of the request"
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38, Action.FAIL, "the cluster has too few brokers to create the topic"
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41, Action.REFRESH, "another broker is the controller now"
    INVALID_REQUEST = 42, Action.FAIL, "the broker does not understand the request; see its log"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, Action.FAIL, "the topic's message format is too old for this"
    POLICY_VIOLATION = 44, Action.FAIL, "a policy of the broker forbids it"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, Action.FAIL, "the broker misses records that this producer sent before"
    DUPLICATE_SEQUENCE_NUMBER = 46, Action.FAIL, "the broker has these records already"
    INVALID_PRODUCER_EPOCH = 47, Action.FAIL, "a newer producer took this one's place"
    INVALID_TXN_STATE = 48, Action.FAIL, "the transaction is not in a state that allows it"
    INVALID_PRODUCER_ID_MAPPING = 49, Action.FAIL, "the producer id belongs to another transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, Action.FIX_OPTION, "the timeout is above transaction.max.timeout.ms"
    CONCURRENT_TRANSACTIONS = 51, Action.BACK_OFF, "the producer's transaction before is still ending"
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, Action.FAIL, "the user may not use the transactional id"
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55, Action.FAIL, "the broker left it out because another part failed"
    KAFKA_STORAGE_ERROR = 56, Action.REFRESH, "the broker's disk failed"
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58, Action.FIX_OPTION, "the broker refuses the credentials"
    UNKNOWN_PRODUCER_ID = 59, Action.FAIL, "the broker has forgotten this producer"
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69, Action.FIX_OPTION, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, Action.RETRY, "the broker has dropped the fetch session"
    INVALID_FETCH_SESSION_EPOCH = 71, Action.RETRY, "the fetch session is out of step"
    LISTENER_NOT_FOUND = 72, Action.REFRESH, "the leader has no listener of this name"
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74, Action.REFRESH, "the partition has a newer leader"
    UNKNOWN_LEADER_EPOCH = 75, Action.REFRESH, "the broker has not heard of the newest leader yet"
    UNSUPPORTED_COMPRESSION_TYPE = 76, Action.FAIL, "the topic's codec needs a newer version of the request"
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78, Action.BACK_OFF, "the new leader does not know the log's end yet"
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80, Action.REFRESH
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82, Action.FAIL, "another client uses the group.instance.id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, Action.REFRESH
    ELECTION_NOT_NEEDED = 84, Action.REFRESH
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87, Action.FIX_DATA, "the broker refuses a record"
    UNSTABLE_OFFSET_COMMIT = 88, Action.BACK_OFF, "a transaction that commits offsets is still open"
    THROTTLING_QUOTA_EXCEEDED = 89, Action.BACK_OFF, "the client's quota is used up for now"
    PRODUCER_FENCED = 90, Action.FAIL, "a newer producer took this one's place"
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100, Action.REFRESH, "the broker does not know the topic's id (yet, or any more)"
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103, Action.REFRESH, "the topic was made anew under another id"
    INCONSISTENT_CLUSTER_ID = 104, Action.FAIL, "the broker belongs to another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106, Action.RETRY, "the fetch session mixes names and ids of topics"
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, Action.FAIL, "the offset lies in tiered storage only"
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113, Action.FAIL, "the group has moved on without this member"
    MISMATCHED_ENDPOINT_TYPE = 114, Action.FIX_OPTION, "the address is a controller's, not a broker's"
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120, Action.FAIL, "the transaction can only be aborted"
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122, Action.RETRY
    INVALID_SHARE_SESSION_EPOCH = 123, Action.RETRY
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = (
        129,
        Action.REFRESH,
        "the broker wants its client to start anew from the bootstrap list",
    )
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133, Action.BACK_OFF


def broker_error(code: int, place: str, detail: str | None = None) -> BrokerError:
    """The error for a code at ``place`` (request, topic-partition, broker).

    ``detail`` is what the broker itself says of it, where the reply has such a field.
    """
    return ErrorCode.error(code, place, detail)
