"""The error codes of modern Kafka (0.8 to 4.4), with the meaning and the remedy of each.

Codes that Kafka's own clients retry are RETRY, BACK_OFF or REFRESH here: REFRESH if those clients fetch
metadata first. New metadata helps with six more codes. Kafka does not retry two of them,
BROKER_NOT_AVAILABLE and REBOOTSTRAP_REQUIRED.

Source: org.apache.kafka.common.protocol.Errors of kafka-clients 4.4.0, KIP-1102.
"""

from __future__ import annotations

from typing import Final

from spark_kafkawire.errors import Action, ErrorTable

# Remedies that several codes share.
_RUN_AGAIN: Final = "run again; if the error lasts, raise retries or brokerDownTimeout"
_LEADERS: Final = "run again once the partition has a leader; if the error lasts, see the brokers' logs"
_RIGHTS: Final = "ask an administrator for the permission, or log in as another user (kafka.sasl.jaas.config)"
_MEMBERS: Final = "stop the group's consumers, or commit for another group"
_IDENTITY: Final = (
    "if kafka.transactional.id is set, see that no other write uses the same one; then run again, with a new "
    "producer id"
)
_NEW_TOKEN: Final = (
    "run again, with a new DataFrame: it gets a new token; if the error lasts, raise the brokers' "
    "delegation.token.expiry.time.ms and delegation.token.max.lifetime.ms"
)
#: Meaning and remedy of the codes that answer requests which nothing here sends.
_NOT_ASKED: Final = (
    "the broker answers with an error of other requests",
    "nothing here requests that: report it as a bug, with the versions of broker and package",
)


class ErrorCode(ErrorTable):
    """The error codes, in the order of their numbers."""

    # fmt: off
    UNKNOWN_SERVER_ERROR = (-1, Action.FAIL, "the broker failed with an error that has no code of its own",
        "see the broker's log, then run again")
    NONE = 0
    OFFSET_OUT_OF_RANGE = (1, Action.DATA_LOSS, "the offset is not in the log",
        "read what is there with failOnDataLoss=false, or choose other startingOffsets")
    CORRUPT_MESSAGE = (2, Action.RETRY,
        "the broker found a damaged record, or one without key for a compacted topic",
        "if the topic is compacted, give every row a key; otherwise check the disk and the network")
    UNKNOWN_TOPIC_OR_PARTITION = (3, Action.REFRESH, "the broker has no such partition",
        "check the topic's name and the user's permission to see it; a new topic takes a few seconds")
    INVALID_FETCH_SIZE = (4, Action.FIX_OPTION, "the broker refuses the fetch size",
        "set fetchBytes to another size")
    LEADER_NOT_AVAILABLE = (5, Action.REFRESH, "the partition has no leader at the moment", _LEADERS)
    NOT_LEADER_OR_FOLLOWER = (6, Action.REFRESH, "another broker leads the partition now", _LEADERS)
    REQUEST_TIMED_OUT = (7, Action.BACK_OFF, "the broker timed out while it waited for other brokers",
        "check that all brokers are up, and run again with a longer requestTimeout")
    BROKER_NOT_AVAILABLE = (8, Action.REFRESH, "the broker is not alive",
        "check that all brokers are up, then run again")
    REPLICA_NOT_AVAILABLE = (9, Action.REFRESH, "the broker does not have the replica",
        "run again once the replicas have been moved")
    MESSAGE_TOO_LARGE = (10, Action.FIX_OPTION, "a batch is larger than the topic's max.message.bytes",
        "lower batchBytes; if a single record is that large, raise max.message.bytes of the topic")
    STALE_CONTROLLER_EPOCH = (11, Action.FAIL, *_NOT_ASKED)
    OFFSET_METADATA_TOO_LARGE = (12, Action.FIX_OPTION, "the metadata of a committed offset is too long",
        "shorten it, or raise the brokers' offset.metadata.max.bytes")
    NETWORK_EXCEPTION = (13, Action.REFRESH, "the broker lost its connection to another broker", _RUN_AGAIN)
    COORDINATOR_LOAD_IN_PROGRESS = (14, Action.BACK_OFF, "the coordinator is still loading its state",
        _RUN_AGAIN)
    COORDINATOR_NOT_AVAILABLE = (15, Action.REFRESH, "no coordinator is available at the moment",
        "check that __consumer_offsets and __transaction_state have leaders, then run again")
    NOT_COORDINATOR = (16, Action.REFRESH, "another broker is the coordinator now", _RUN_AGAIN)
    INVALID_TOPIC_EXCEPTION = (17, Action.FIX_OPTION, "the broker refuses the topic name",
        "use 1 to 249 letters, digits, dots, underscores and hyphens, and not the name of an internal topic")
    RECORD_LIST_TOO_LARGE = (18, Action.FIX_OPTION, "a batch is larger than the topic's segment.bytes",
        "lower batchBytes, or raise segment.bytes of the topic")
    NOT_ENOUGH_REPLICAS = (19, Action.BACK_OFF, "fewer replicas are in sync than min.insync.replicas",
        "start the brokers that are down, or lower min.insync.replicas of the topic")
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (20, Action.BACK_OFF,
        "the leader has the records, but fewer replicas than min.insync.replicas have them",
        "start the brokers that are down, or lower min.insync.replicas of the topic")
    INVALID_REQUIRED_ACKS = (21, Action.FIX_OPTION, "the broker refuses this value of acks",
        "set acks to 0, 1 or all")
    ILLEGAL_GENERATION = (22, Action.FAIL, "the group is in another generation", _MEMBERS)
    INCONSISTENT_GROUP_PROTOCOL = (23, Action.FAIL, *_NOT_ASKED)
    INVALID_GROUP_ID = (24, Action.FIX_OPTION, "the broker refuses the group id",
        "use a group id that is not empty")
    UNKNOWN_MEMBER_ID = (25, Action.FAIL, "the group has active members, and this client is not one of them",
        _MEMBERS)
    INVALID_SESSION_TIMEOUT = (26, Action.FAIL, *_NOT_ASKED)
    REBALANCE_IN_PROGRESS = (27, Action.FAIL, "the group has active members, and they are rebalancing",
        _MEMBERS)
    INVALID_COMMIT_OFFSET_SIZE = (28, Action.FAIL, "the commit is larger than the broker stores",
        "commit fewer topics at once, or raise max.message.bytes of __consumer_offsets")
    TOPIC_AUTHORIZATION_FAILED = (29, Action.FAIL,
        "the user is not authorized for this operation on the topic", _RIGHTS)
    GROUP_AUTHORIZATION_FAILED = (30, Action.FAIL,
        "the user is not authorized for this operation on the group", _RIGHTS)
    CLUSTER_AUTHORIZATION_FAILED = (31, Action.FAIL,
        "the user is not authorized for this operation on the cluster", _RIGHTS)
    INVALID_TIMESTAMP = (32, Action.FIX_DATA, "a timestamp is too far from the current time for the topic",
        "write other timestamps, or raise message.timestamp.before.max.ms or .after.max.ms of the topic")
    UNSUPPORTED_SASL_MECHANISM = (33, Action.FIX_OPTION,
        "the broker does not support this kafka.sasl.mechanism",
        "choose one of the broker's sasl.enabled.mechanisms")
    ILLEGAL_SASL_STATE = (34, Action.FIX_OPTION, "the broker expects another kafka.security.protocol",
        "set it to the protocol of the listener at that port")
    UNSUPPORTED_VERSION = (35, Action.FAIL, "the broker does not know this version of the request",
        "run again when all brokers have one version; check the proxy in front of them, if there is one")
    TOPIC_ALREADY_EXISTS = (36, Action.FAIL,
        "a topic with this name already exists", "use it, or choose another name")
    INVALID_PARTITIONS = (37, Action.FAIL, "the broker refuses this number of partitions",
        "create the topic with at least one partition, and within the brokers' limits")
    INVALID_REPLICATION_FACTOR = (38, Action.FAIL, "the cluster has too few brokers to create the topic",
        "ask for fewer replicas, or start the brokers that are down")
    INVALID_REPLICA_ASSIGNMENT = (39, Action.FAIL, "the replicas cannot be placed on these brokers",
        "let the brokers place them, or name brokers that are registered")
    INVALID_CONFIG = (40, Action.FAIL, "the broker refuses a setting",
        "use topic settings that this version of the brokers supports")
    NOT_CONTROLLER = (41, Action.REFRESH, "another broker is the controller now", _RUN_AGAIN)
    INVALID_REQUEST = (42, Action.FAIL, "the broker does not understand the request",
        "see the broker's log, and report what it says")
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (43, Action.FAIL, "the topic's message format is too old for this",
        "raise message.format.version of the topic, or use offsets instead of timestamps")
    POLICY_VIOLATION = (44, Action.FAIL, "a policy of the broker forbids the request",
        "follow the policy, or ask an administrator to make the change")
    OUT_OF_ORDER_SEQUENCE_NUMBER = (45, Action.FAIL,
        "records that this producer sent earlier are missing at the broker",
        "check whether an unclean leader election truncated the log, then run the write again")
    DUPLICATE_SEQUENCE_NUMBER = (46, Action.FAIL, "the broker already has these records",
        "nothing needs to be done: the records are in the log")
    INVALID_PRODUCER_EPOCH = (47, Action.FAIL,
        "the producer's epoch is older than the latest one in the log",
        _IDENTITY)
    INVALID_TXN_STATE = (48, Action.FAIL, "the state of the transaction does not allow the request",
        _IDENTITY)
    INVALID_PRODUCER_ID_MAPPING = (49, Action.FAIL, "the producer id belongs to another transactional id",
        _IDENTITY)
    INVALID_TRANSACTION_TIMEOUT = (50, Action.FIX_OPTION, "the timeout is above transaction.max.timeout.ms",
        "use a shorter timeout, or raise that setting of the brokers")
    CONCURRENT_TRANSACTIONS = (51, Action.BACK_OFF, "the producer's previous transaction is still ending",
        _RUN_AGAIN)
    TRANSACTION_COORDINATOR_FENCED = (52, Action.FAIL, *_NOT_ASKED)
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (53, Action.FAIL,
        "the user is not authorized to use the transactional id", _RIGHTS)
    SECURITY_DISABLED = (54, Action.FAIL, *_NOT_ASKED)
    OPERATION_NOT_ATTEMPTED = (55, Action.FAIL,
        "the broker did not attempt the operation because another part of the request failed",
        "fix the cause of the other error, then run again")
    KAFKA_STORAGE_ERROR = (56, Action.REFRESH, "the broker's disk failed",
        "replace the disk, or wait until another broker leads the partition; then run again")
    LOG_DIR_NOT_FOUND = (57, Action.FAIL, *_NOT_ASKED)
    SASL_AUTHENTICATION_FAILED = (58, Action.FIX_OPTION, "the broker refuses the credentials",
        "check user name and secret in kafka.sasl.jaas.config, and that they belong to this mechanism; with "
        "GSSAPI also the key tab and the clock of the broker")
    UNKNOWN_PRODUCER_ID = (59, Action.FAIL, "the broker no longer knows this producer id", _IDENTITY)
    REASSIGNMENT_IN_PROGRESS = (60, Action.FAIL, "a reassignment of the partition is in progress",
        "run again when the reassignment has ended")
    DELEGATION_TOKEN_AUTH_DISABLED = (61, Action.FAIL, "delegation tokens are disabled on the brokers",
        "set delegation.token.secret.key, the same on all brokers and controllers, or leave "
        "delegationTokens out")
    DELEGATION_TOKEN_NOT_FOUND = (62, Action.FAIL, "the brokers do not have this delegation token",
        _NEW_TOKEN)
    DELEGATION_TOKEN_OWNER_MISMATCH = (63, Action.FAIL, "the delegation token belongs to another user",
        "log in as the user who created it")
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (64, Action.FAIL,
        "delegation tokens are not available over this kind of connection",
        "log in by a listener of SASL_SSL or SASL_PLAINTEXT, and with a password, a key or a ticket: not "
        "with a delegation token")
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (65, Action.FAIL,
        "the user is not authorized to see the delegation token", _RIGHTS)
    DELEGATION_TOKEN_EXPIRED = (66, Action.FAIL, "the delegation token has expired", _NEW_TOKEN)
    INVALID_PRINCIPAL_TYPE = (67, Action.FAIL, *_NOT_ASKED)
    NON_EMPTY_GROUP = (68, Action.FAIL, "the group has members", _MEMBERS)
    GROUP_ID_NOT_FOUND = (69, Action.FIX_OPTION, "the group does not exist",
        "check the group's name; a group that never committed does not exist for the broker")
    FETCH_SESSION_ID_NOT_FOUND = (70, Action.RETRY, "the broker has dropped the fetch session", _RUN_AGAIN)
    INVALID_FETCH_SESSION_EPOCH = (71, Action.RETRY, "the fetch session is out of step", _RUN_AGAIN)
    LISTENER_NOT_FOUND = (72, Action.REFRESH,
        "the partition's leader does not have the listener that the request came through",
        "configure the same listeners on all brokers, or connect to a listener that all of them have")
    TOPIC_DELETION_DISABLED = (73, Action.FAIL, *_NOT_ASKED)
    FENCED_LEADER_EPOCH = (74, Action.REFRESH, "the partition has a newer leader", _LEADERS)
    UNKNOWN_LEADER_EPOCH = (75, Action.REFRESH, "the broker does not know the newest leader yet",
        _RUN_AGAIN)
    UNSUPPORTED_COMPRESSION_TYPE = (76, Action.FAIL, "the topic's codec needs a newer version of the request",
        "upgrade the proxy between client and broker, or change compression.type of the topic")
    STALE_BROKER_EPOCH = (77, Action.FAIL, *_NOT_ASKED)
    OFFSET_NOT_AVAILABLE = (78, Action.BACK_OFF, "the new leader does not know the log's end yet", _RUN_AGAIN)
    MEMBER_ID_REQUIRED = (79, Action.FAIL, *_NOT_ASKED)
    PREFERRED_LEADER_NOT_AVAILABLE = (80, Action.REFRESH, "the preferred leader of the partition is down",
        "start that broker")
    GROUP_MAX_SIZE_REACHED = (81, Action.FAIL, *_NOT_ASKED)
    FENCED_INSTANCE_ID = (82, Action.FAIL, "another client uses the group.instance.id", _MEMBERS)
    ELIGIBLE_LEADERS_NOT_AVAILABLE = (83, Action.REFRESH,
        "no replica that is eligible to lead the partition is available", "start the brokers that hold it")
    ELECTION_NOT_NEEDED = (84, Action.REFRESH, *_NOT_ASKED)
    NO_REASSIGNMENT_IN_PROGRESS = (85, Action.FAIL, *_NOT_ASKED)
    GROUP_SUBSCRIBED_TO_TOPIC = (86, Action.FAIL, "the group reads the topic whose offsets are to be deleted",
        _MEMBERS)
    INVALID_RECORD = (87, Action.FIX_DATA, "the broker refuses a record",
        "see the broker's log; rows for a compacted topic need a key")
    UNSTABLE_OFFSET_COMMIT = (88, Action.BACK_OFF, "a transaction that commits offsets is still open",
        "run again when it has ended, which is after its producer's timeout at the latest")
    THROTTLING_QUOTA_EXCEEDED = (89, Action.BACK_OFF, "the client's quota is used up for now",
        "run again later, or ask an administrator to raise the quota")
    PRODUCER_FENCED = (90, Action.FAIL, "a newer producer took this one's place",
        "make sure that no other program writes with the same transactional id")
    RESOURCE_NOT_FOUND = (91, Action.FAIL, *_NOT_ASKED)
    DUPLICATE_RESOURCE = (92, Action.FAIL, *_NOT_ASKED)
    UNACCEPTABLE_CREDENTIAL = (93, Action.FAIL, *_NOT_ASKED)
    INCONSISTENT_VOTER_SET = (94, Action.FAIL, *_NOT_ASKED)
    INVALID_UPDATE_VERSION = (95, Action.FAIL, *_NOT_ASKED)
    FEATURE_UPDATE_FAILED = (96, Action.FAIL, *_NOT_ASKED)
    PRINCIPAL_DESERIALIZATION_FAILURE = (97, Action.FAIL,
        "the controller cannot read the principal of a request that a broker forwarded",
        "ask an administrator to use the same principal.builder.class on all brokers")
    SNAPSHOT_NOT_FOUND = (98, Action.FAIL, *_NOT_ASKED)
    POSITION_OUT_OF_RANGE = (99, Action.FAIL, *_NOT_ASKED)
    UNKNOWN_TOPIC_ID = (100, Action.REFRESH, "the broker does not know the topic's id",
        "if the topic was deleted and created again, plan again; a new topic takes a few seconds")
    DUPLICATE_BROKER_REGISTRATION = (101, Action.FAIL, *_NOT_ASKED)
    BROKER_ID_NOT_REGISTERED = (102, Action.FAIL, "no broker with this id is registered",
        "name brokers that are registered, or start the missing broker")
    INCONSISTENT_TOPIC_ID = (103, Action.REFRESH, "the topic was deleted and created again with another id",
        "plan again: the plan refers to the deleted topic")
    INCONSISTENT_CLUSTER_ID = (104, Action.FAIL, "the broker belongs to another cluster",
        "check that all addresses in kafka.bootstrap.servers belong to the same cluster")
    TRANSACTIONAL_ID_NOT_FOUND = (105, Action.FAIL, "the coordinator does not have this transactional id",
        "check its name; brokers remove ids that were not used for transactional.id.expiration.ms")
    FETCH_SESSION_TOPIC_ID_ERROR = (106, Action.RETRY, "the fetch session mixes names and ids of topics",
        _RUN_AGAIN)
    INELIGIBLE_REPLICA = (107, Action.FAIL, *_NOT_ASKED)
    NEW_LEADER_ELECTED = (108, Action.FAIL, *_NOT_ASKED)
    OFFSET_MOVED_TO_TIERED_STORAGE = (109, Action.FAIL, "the offset is available in tiered storage only",
        "see the broker's log: brokers serve such offsets to consumers and refuse them to replicas")
    FENCED_MEMBER_EPOCH = (110, Action.FAIL, "the group has removed this member", _MEMBERS)
    UNRELEASED_INSTANCE_ID = (111, Action.FAIL, "another member of the group still has the group.instance.id",
        _MEMBERS)
    UNSUPPORTED_ASSIGNOR = (112, Action.FAIL, *_NOT_ASKED)
    STALE_MEMBER_EPOCH = (113, Action.FAIL, "the member's epoch is behind the group's", _MEMBERS)
    MISMATCHED_ENDPOINT_TYPE = (114, Action.FIX_OPTION, "the address is a controller's, not a broker's",
        "set kafka.bootstrap.servers to the listeners of brokers")
    UNSUPPORTED_ENDPOINT_TYPE = (115, Action.FAIL, *_NOT_ASKED)
    UNKNOWN_CONTROLLER_ID = (116, Action.FAIL, *_NOT_ASKED)
    UNKNOWN_SUBSCRIPTION_ID = (117, Action.FAIL, *_NOT_ASKED)
    TELEMETRY_TOO_LARGE = (118, Action.FAIL, *_NOT_ASKED)
    INVALID_REGISTRATION = (119, Action.FAIL, *_NOT_ASKED)
    TRANSACTION_ABORTABLE = (120, Action.FAIL, "the transaction can only be aborted", _IDENTITY)
    INVALID_RECORD_STATE = (121, Action.FAIL, *_NOT_ASKED)
    SHARE_SESSION_NOT_FOUND = (122, Action.RETRY, *_NOT_ASKED)
    INVALID_SHARE_SESSION_EPOCH = (123, Action.RETRY, *_NOT_ASKED)
    FENCED_STATE_EPOCH = (124, Action.FAIL, *_NOT_ASKED)
    INVALID_VOTER_KEY = (125, Action.FAIL, *_NOT_ASKED)
    DUPLICATE_VOTER = (126, Action.FAIL, *_NOT_ASKED)
    VOTER_NOT_FOUND = (127, Action.FAIL, *_NOT_ASKED)
    INVALID_REGULAR_EXPRESSION = (128, Action.FAIL, *_NOT_ASKED)
    REBOOTSTRAP_REQUIRED = (129, Action.REFRESH,
        "the broker asks the client to bootstrap again",
        "run again; check that kafka.bootstrap.servers lists current brokers of this cluster")
    STREAMS_INVALID_TOPOLOGY = (130, Action.FAIL, *_NOT_ASKED)
    STREAMS_INVALID_TOPOLOGY_EPOCH = (131, Action.FAIL, *_NOT_ASKED)
    STREAMS_TOPOLOGY_FENCED = (132, Action.FAIL, *_NOT_ASKED)
    SHARE_SESSION_LIMIT_REACHED = (133, Action.BACK_OFF, *_NOT_ASKED)
    GROUP_DELETION_FAILED = (134, Action.FAIL, *_NOT_ASKED)
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = (135, Action.FAIL, *_NOT_ASKED)
    CONTROLLER_ID_NOT_REGISTERED = (136, Action.FAIL, *_NOT_ASKED)
    # fmt: on


broker_error = ErrorCode.error
