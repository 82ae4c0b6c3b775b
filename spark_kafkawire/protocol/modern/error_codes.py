"""The error codes of brokers from 0.8 on, up to Kafka 4.4: what happened, and what may be done about it.

What Kafka's own clients retry is RETRY, BACK_OFF or REFRESH here, and REFRESH where they fetch metadata
first. New metadata are the cure of six more codes, two of which Kafka does not retry: BROKER_NOT_AVAILABLE
and REBOOTSTRAP_REQUIRED.

Source: org.apache.kafka.common.protocol.Errors of kafka-clients 4.4.0, KIP-1102.
"""

from __future__ import annotations

from typing import Final

from ...errors import Action, BrokerError
from ..error_table import ErrorTable

# What may be done where more than one code asks for the same.
_RUN_AGAIN: Final = "run again; raise retries or patience where it lasts"
_LEADERS: Final = "run again once the partition has a leader; see the brokers' logs where it lasts"
_RIGHTS: Final = "have an administrator grant it, or log in as another user (kafka.sasl.jaas.config)"
_MEMBERS: Final = "stop the group's consumers, or commit for another group"
_IDENTITY: Final = "run the write again: it begins with a new producer id"
_TOKENS: Final = "log in with another kafka.sasl.mechanism, or have an administrator look at the token"
_NOT_ASKED: Final = "nothing here asks for that: report it, with the versions of broker and package"


class ErrorCode(ErrorTable):
    """The error codes, in the order of their numbers."""

    # fmt: off
    UNKNOWN_SERVER_ERROR = (-1, Action.FAIL, "the broker failed in a way that it has no code for",
        "see the broker's log, then run again")
    NONE = 0
    OFFSET_OUT_OF_RANGE = (1, Action.DATA_LOSS, "the offset is not in the log",
        "read what is there with failOnDataLoss=false, or choose other startingOffsets")
    CORRUPT_MESSAGE = (2, Action.RETRY,
        "the broker found a damaged record, or one without key for a compacted topic",
        "give every row a key where the topic is compacted; else have disk and network looked at")
    UNKNOWN_TOPIC_OR_PARTITION = (3, Action.REFRESH, "the broker has no such partition",
        "check the topic's name and the user's right to see it; a new topic takes some seconds")
    INVALID_FETCH_SIZE = (4, Action.FIX_OPTION, "the broker refuses the fetch size",
        "set fetchBytes to another size")
    LEADER_NOT_AVAILABLE = (5, Action.REFRESH, "no broker leads the partition at the moment", _LEADERS)
    NOT_LEADER_OR_FOLLOWER = (6, Action.REFRESH, "another broker leads the partition now", _LEADERS)
    REQUEST_TIMED_OUT = (7, Action.BACK_OFF, "the broker waited in vain for other brokers",
        "see whether all brokers are up, and run again with a longer requestTimeout")
    BROKER_NOT_AVAILABLE = (8, Action.REFRESH, "the broker is not alive",
        "see whether all brokers are up, then run again")
    REPLICA_NOT_AVAILABLE = (9, Action.REFRESH, "the broker does not have the replica",
        "run again once the replicas have been moved")
    MESSAGE_TOO_LARGE = (10, Action.FIX_OPTION, "a batch is larger than the topic's max.message.bytes",
        "lower batchBytes, or raise max.message.bytes of the topic where one record is that large")
    STALE_CONTROLLER_EPOCH = (11, Action.FAIL, "a broker spoke for a controller that was replaced",
        _NOT_ASKED)
    OFFSET_METADATA_TOO_LARGE = (12, Action.FIX_OPTION, "the text beside a committed offset is too long",
        "shorten it, or raise the brokers' offset.metadata.max.bytes")
    NETWORK_EXCEPTION = (13, Action.REFRESH, "the broker lost its connection to another one", _RUN_AGAIN)
    COORDINATOR_LOAD_IN_PROGRESS = (14, Action.BACK_OFF, "the coordinator is reading what it keeps",
        _RUN_AGAIN)
    COORDINATOR_NOT_AVAILABLE = (15, Action.REFRESH, "no broker is coordinator at the moment",
        "see whether __consumer_offsets and __transaction_state have leaders, then run again")
    NOT_COORDINATOR = (16, Action.REFRESH, "another broker is the coordinator now", _RUN_AGAIN)
    INVALID_TOPIC_EXCEPTION = (17, Action.FIX_OPTION, "the broker refuses the topic name",
        "use 1 to 249 letters, digits, dots, underscores and hyphens, and no topic of the brokers' own")
    RECORD_LIST_TOO_LARGE = (18, Action.FIX_OPTION, "a batch is larger than the topic's segment.bytes",
        "lower batchBytes, or raise segment.bytes of the topic")
    NOT_ENOUGH_REPLICAS = (19, Action.BACK_OFF, "fewer replicas are in sync than min.insync.replicas",
        "start the brokers that are down, or lower min.insync.replicas of the topic")
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (20, Action.BACK_OFF,
        "the leader has the records, and fewer replicas than min.insync.replicas followed",
        "start the brokers that are down, or lower min.insync.replicas of the topic")
    INVALID_REQUIRED_ACKS = (21, Action.FIX_OPTION, "the broker refuses this acks", "set acks to 0, 1 or all")
    ILLEGAL_GENERATION = (22, Action.FAIL, "the group is in another generation", _MEMBERS)
    INCONSISTENT_GROUP_PROTOCOL = (23, Action.FAIL,
        "the group's members share no way to divide partitions with a new one", _NOT_ASKED)
    INVALID_GROUP_ID = (24, Action.FIX_OPTION, "the broker refuses the group id",
        "give a group id that is not empty")
    UNKNOWN_MEMBER_ID = (25, Action.FAIL, "the group is in use by members, and this client is none", _MEMBERS)
    INVALID_SESSION_TIMEOUT = (26, Action.FAIL,
        "a member's session timeout is outside group.min.session.timeout.ms and group.max.session.timeout.ms",
        _NOT_ASKED)
    REBALANCE_IN_PROGRESS = (27, Action.FAIL, "the group is in use by members that rebalance", _MEMBERS)
    INVALID_COMMIT_OFFSET_SIZE = (28, Action.FAIL, "the commit is larger than the broker stores",
        "commit fewer topics at once, or raise max.message.bytes of __consumer_offsets")
    TOPIC_AUTHORIZATION_FAILED = (29, Action.FAIL, "the user may not do this to the topic", _RIGHTS)
    GROUP_AUTHORIZATION_FAILED = (30, Action.FAIL, "the user may not do this to the group", _RIGHTS)
    CLUSTER_AUTHORIZATION_FAILED = (31, Action.FAIL, "the user may not do this to the cluster", _RIGHTS)
    INVALID_TIMESTAMP = (32, Action.FIX_DATA, "a timestamp is further from now than the topic allows",
        "write other timestamps, or raise message.timestamp.before.max.ms or .after.max.ms of the topic")
    UNSUPPORTED_SASL_MECHANISM = (33, Action.FIX_OPTION, "the broker does not have this kafka.sasl.mechanism",
        "choose one of the broker's sasl.enabled.mechanisms")
    ILLEGAL_SASL_STATE = (34, Action.FIX_OPTION, "the broker wants another kafka.security.protocol",
        "set it to what the listener of that port speaks")
    UNSUPPORTED_VERSION = (35, Action.FAIL, "the broker does not know this version of the request",
        "see whether something between client and broker is of another version")
    TOPIC_ALREADY_EXISTS = (36, Action.FAIL,
        "there is a topic of this name", "use it, or choose another name")
    INVALID_PARTITIONS = (37, Action.FAIL, "the broker refuses this number of partitions",
        "create the topic with at least one, and within the brokers' limits")
    INVALID_REPLICATION_FACTOR = (38, Action.FAIL, "the cluster has too few brokers to create the topic",
        "ask for fewer replicas, or start the brokers that are down")
    INVALID_REPLICA_ASSIGNMENT = (39, Action.FAIL, "the replicas cannot lie on these brokers",
        "leave it to the brokers where they lie, or name brokers that are registered")
    INVALID_CONFIG = (40, Action.FAIL, "the broker refuses a setting",
        "give the topic settings that its broker's release knows")
    NOT_CONTROLLER = (41, Action.REFRESH, "another broker is the controller now", _RUN_AGAIN)
    INVALID_REQUEST = (42, Action.FAIL, "the broker does not understand the request",
        "see the broker's log, and report what it says")
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (43, Action.FAIL, "the topic's message format is too old for this",
        "raise message.format.version of the topic, or ask by offsets instead of times")
    POLICY_VIOLATION = (44, Action.FAIL, "a policy of the broker forbids it",
        "keep to the policy, or have an administrator do it")
    OUT_OF_ORDER_SEQUENCE_NUMBER = (45, Action.FAIL,
        "the broker misses records that this producer sent before",
        "see whether the log was cut by an unclean election, then run the write again")
    DUPLICATE_SEQUENCE_NUMBER = (46, Action.FAIL, "the broker has these records already",
        "nothing is to be done: they are in the log")
    INVALID_PRODUCER_EPOCH = (47, Action.FAIL,
        "the producer's epoch is older than the one that the log knows",
        _IDENTITY)
    INVALID_TXN_STATE = (48, Action.FAIL, "the transaction is not in a state that allows it", _IDENTITY)
    INVALID_PRODUCER_ID_MAPPING = (49, Action.FAIL, "the producer id belongs to another transactional id",
        _IDENTITY)
    INVALID_TRANSACTION_TIMEOUT = (50, Action.FIX_OPTION, "the timeout is above transaction.max.timeout.ms",
        "ask for a shorter one, or raise that setting of the brokers")
    CONCURRENT_TRANSACTIONS = (51, Action.BACK_OFF, "the producer's transaction before is still ending",
        _RUN_AGAIN)
    TRANSACTION_COORDINATOR_FENCED = (52, Action.FAIL,
        "a coordinator that was replaced wrote the end of a transaction", _NOT_ASKED)
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (53, Action.FAIL, "the user may not use the transactional id",
        _RIGHTS)
    SECURITY_DISABLED = (54, Action.FAIL, "the broker has no authorizer, and so no rights to tell of",
        _NOT_ASKED)
    OPERATION_NOT_ATTEMPTED = (55, Action.FAIL, "the broker left it out because another part failed",
        "mend what the other error tells, then run again")
    KAFKA_STORAGE_ERROR = (56, Action.REFRESH, "the broker's disk failed",
        "replace the disk, or wait for another leader; then run again")
    LOG_DIR_NOT_FOUND = (57, Action.FAIL, "the broker has no such log directory", _NOT_ASKED)
    SASL_AUTHENTICATION_FAILED = (58, Action.FIX_OPTION, "the broker refuses the credentials",
        "check user and secret in kafka.sasl.jaas.config, and that the mechanism is the one they are for")
    UNKNOWN_PRODUCER_ID = (59, Action.FAIL, "the broker has forgotten this producer", _IDENTITY)
    REASSIGNMENT_IN_PROGRESS = (60, Action.FAIL, "replicas of the partition are being moved",
        "run again when they have been moved")
    DELEGATION_TOKEN_AUTH_DISABLED = (61, Action.FAIL, "the brokers give out no delegation tokens", _TOKENS)
    DELEGATION_TOKEN_NOT_FOUND = (62, Action.FAIL, "the brokers know no such delegation token", _TOKENS)
    DELEGATION_TOKEN_OWNER_MISMATCH = (63, Action.FAIL, "the delegation token is another user's", _TOKENS)
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (64, Action.FAIL,
        "this connection proves too little of its user for delegation tokens", _TOKENS)
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (65, Action.FAIL, "the user may not see the delegation token",
        _TOKENS)
    DELEGATION_TOKEN_EXPIRED = (66, Action.FAIL, "the delegation token is too old", _TOKENS)
    INVALID_PRINCIPAL_TYPE = (67, Action.FAIL, "the broker knows no such kind of principal", _NOT_ASKED)
    NON_EMPTY_GROUP = (68, Action.FAIL, "the group has members", _MEMBERS)
    GROUP_ID_NOT_FOUND = (69, Action.FIX_OPTION, "there is no such group",
        "check the group's name; one that never committed is not known")
    FETCH_SESSION_ID_NOT_FOUND = (70, Action.RETRY, "the broker has dropped the fetch session", _RUN_AGAIN)
    INVALID_FETCH_SESSION_EPOCH = (71, Action.RETRY, "the fetch session is out of step", _RUN_AGAIN)
    LISTENER_NOT_FOUND = (72, Action.REFRESH,
        "the partition's leader has no listener like the one that was asked",
        "give all brokers the same listeners, or connect to one that all have")
    TOPIC_DELETION_DISABLED = (73, Action.FAIL, "the brokers do not delete topics", _NOT_ASKED)
    FENCED_LEADER_EPOCH = (74, Action.REFRESH, "the partition has a newer leader", _LEADERS)
    UNKNOWN_LEADER_EPOCH = (75, Action.REFRESH, "the broker has not heard of the newest leader yet",
        _RUN_AGAIN)
    UNSUPPORTED_COMPRESSION_TYPE = (76, Action.FAIL, "the topic's codec needs a newer version of the request",
        "have something newer between client and broker, or another compression.type of the topic")
    STALE_BROKER_EPOCH = (77, Action.FAIL, "a broker spoke for itself before it was started anew", _NOT_ASKED)
    OFFSET_NOT_AVAILABLE = (78, Action.BACK_OFF, "the new leader does not know the log's end yet", _RUN_AGAIN)
    MEMBER_ID_REQUIRED = (79, Action.FAIL, "a consumer that joins the group has to come again with an id",
        _NOT_ASKED)
    PREFERRED_LEADER_NOT_AVAILABLE = (80, Action.REFRESH, "the broker that is to lead the partition is down",
        "start it")
    GROUP_MAX_SIZE_REACHED = (81, Action.FAIL, "the group has group.max.size members already", _NOT_ASKED)
    FENCED_INSTANCE_ID = (82, Action.FAIL, "another client uses the group.instance.id", _MEMBERS)
    ELIGIBLE_LEADERS_NOT_AVAILABLE = (83, Action.REFRESH, "no replica that may lead the partition is up",
        "start the brokers that hold it")
    ELECTION_NOT_NEEDED = (84, Action.REFRESH, "the partition has the leader that it is to have", _NOT_ASKED)
    NO_REASSIGNMENT_IN_PROGRESS = (85, Action.FAIL, "no replicas of the partition are being moved",
        _NOT_ASKED)
    GROUP_SUBSCRIBED_TO_TOPIC = (86, Action.FAIL, "the group reads the topic whose offsets are to be deleted",
        _MEMBERS)
    INVALID_RECORD = (87, Action.FIX_DATA, "the broker refuses a record",
        "change the row as the broker says, such as by a key where the topic is compacted")
    UNSTABLE_OFFSET_COMMIT = (88, Action.BACK_OFF, "a transaction that commits offsets is still open",
        "run again when it has ended: at latest after the timeout of its producer")
    THROTTLING_QUOTA_EXCEEDED = (89, Action.BACK_OFF, "the client's quota is used up for now",
        "run again later, or have an administrator raise it")
    PRODUCER_FENCED = (90, Action.FAIL, "a newer producer took this one's place",
        "see that no other program writes with the same transactional id")
    RESOURCE_NOT_FOUND = (91, Action.FAIL, "the request names something that is not there", _NOT_ASKED)
    DUPLICATE_RESOURCE = (92, Action.FAIL, "the request names the same thing twice", _NOT_ASKED)
    UNACCEPTABLE_CREDENTIAL = (93, Action.FAIL, "new credentials do not meet the brokers' demands",
        _NOT_ASKED)
    INCONSISTENT_VOTER_SET = (94, Action.FAIL, "a controller and who asks it differ in who may vote",
        _NOT_ASKED)
    INVALID_UPDATE_VERSION = (95, Action.FAIL, "a feature of the cluster cannot have this version",
        _NOT_ASKED)
    FEATURE_UPDATE_FAILED = (96, Action.FAIL, "the cluster could not change its features", _NOT_ASKED)
    PRINCIPAL_DESERIALIZATION_FAILURE = (97, Action.FAIL,
        "the controller cannot read for which user a broker passed the request on",
        "have an administrator see that all brokers build principals alike (principal.builder.class)")
    SNAPSHOT_NOT_FOUND = (98, Action.FAIL, "the controller has no such snapshot of its metadata", _NOT_ASKED)
    POSITION_OUT_OF_RANGE = (99, Action.FAIL, "the controller's snapshot does not reach so far", _NOT_ASKED)
    UNKNOWN_TOPIC_ID = (100, Action.REFRESH, "the broker does not know the topic's id (yet, or any more)",
        "plan again where the topic was deleted and made anew; a new one takes some seconds")
    DUPLICATE_BROKER_REGISTRATION = (101, Action.FAIL, "two brokers have the same node.id", _NOT_ASKED)
    BROKER_ID_NOT_REGISTERED = (102, Action.FAIL, "no broker of this id is registered",
        "name brokers that are there, or start the one that is missing")
    INCONSISTENT_TOPIC_ID = (103, Action.REFRESH, "the topic was made anew under another id",
        "plan again: what was planned is about a topic that was deleted")
    INCONSISTENT_CLUSTER_ID = (104, Action.FAIL, "the broker belongs to another cluster",
        "see that all names of kafka.bootstrap.servers lead to the same cluster")
    TRANSACTIONAL_ID_NOT_FOUND = (105, Action.FAIL, "the coordinator has no such transactional id",
        "check its name; brokers forget those that were not used for transactional.id.expiration.ms")
    FETCH_SESSION_TOPIC_ID_ERROR = (106, Action.RETRY, "the fetch session mixes names and ids of topics",
        _RUN_AGAIN)
    INELIGIBLE_REPLICA = (107, Action.FAIL, "a replica that is to count as in sync may not", _NOT_ASKED)
    NEW_LEADER_ELECTED = (108, Action.FAIL, "the partition got another leader by the change itself",
        _NOT_ASKED)
    OFFSET_MOVED_TO_TIERED_STORAGE = (109, Action.FAIL, "the offset lies in tiered storage only",
        "see the broker's log: it reads those for consumers, and refuses them to replicas")
    FENCED_MEMBER_EPOCH = (110, Action.FAIL, "the group has put this member out", _MEMBERS)
    UNRELEASED_INSTANCE_ID = (111, Action.FAIL, "another member of the group still has the group.instance.id",
        _MEMBERS)
    UNSUPPORTED_ASSIGNOR = (112, Action.FAIL, "the group has no such way to divide partitions", _NOT_ASKED)
    STALE_MEMBER_EPOCH = (113, Action.FAIL, "the group has moved on without this member", _MEMBERS)
    MISMATCHED_ENDPOINT_TYPE = (114, Action.FIX_OPTION, "the address is a controller's, not a broker's",
        "give the brokers' listeners as kafka.bootstrap.servers")
    UNSUPPORTED_ENDPOINT_TYPE = (115, Action.FAIL, "the broker knows no endpoints of this kind", _NOT_ASKED)
    UNKNOWN_CONTROLLER_ID = (116, Action.FAIL, "no controller of this id is known", _NOT_ASKED)
    UNKNOWN_SUBSCRIPTION_ID = (117, Action.FAIL, "the broker wants other metrics of its clients by now",
        _NOT_ASKED)
    TELEMETRY_TOO_LARGE = (118, Action.FAIL, "a client's metrics are larger than the broker takes",
        _NOT_ASKED)
    INVALID_REGISTRATION = (119, Action.FAIL, "the controller refuses to register a broker", _NOT_ASKED)
    TRANSACTION_ABORTABLE = (120, Action.FAIL, "the transaction can only be aborted", _IDENTITY)
    INVALID_RECORD_STATE = (121, Action.FAIL, "a share group does not wait for this acknowledgement",
        _NOT_ASKED)
    SHARE_SESSION_NOT_FOUND = (122, Action.RETRY, "the broker has dropped the share session", _NOT_ASKED)
    INVALID_SHARE_SESSION_EPOCH = (123, Action.RETRY, "the share session is out of step", _NOT_ASKED)
    FENCED_STATE_EPOCH = (124, Action.FAIL, "the state of a share group was written by a newer coordinator",
        _NOT_ASKED)
    INVALID_VOTER_KEY = (125, Action.FAIL, "a vote was sent to another controller than it is for", _NOT_ASKED)
    DUPLICATE_VOTER = (126, Action.FAIL, "the controller may vote already", _NOT_ASKED)
    VOTER_NOT_FOUND = (127, Action.FAIL, "the controller is none of those that may vote", _NOT_ASKED)
    INVALID_REGULAR_EXPRESSION = (128, Action.FAIL, "the coordinator cannot read the regular expression",
        _NOT_ASKED)
    REBOOTSTRAP_REQUIRED = (129, Action.REFRESH,
        "the broker wants its client to start anew from the bootstrap list",
        "run again; see that kafka.bootstrap.servers are this cluster's brokers of today")
    STREAMS_INVALID_TOPOLOGY = (130, Action.FAIL, "the coordinator refuses a Streams application's topology",
        _NOT_ASKED)
    STREAMS_INVALID_TOPOLOGY_EPOCH = (131, Action.FAIL,
        "a Streams application's topology has an epoch that cannot be", _NOT_ASKED)
    STREAMS_TOPOLOGY_FENCED = (132, Action.FAIL, "a Streams application has a newer topology by now",
        _NOT_ASKED)
    SHARE_SESSION_LIMIT_REACHED = (133, Action.BACK_OFF, "the broker has as many share sessions as it takes",
        _NOT_ASKED)
    GROUP_DELETION_FAILED = (134, Action.FAIL, "the coordinator did not get the group deleted", _NOT_ASKED)
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = (135, Action.FAIL,
        "the broker could not store how a Streams application is made up", _NOT_ASKED)
    CONTROLLER_ID_NOT_REGISTERED = (136, Action.FAIL, "no controller of this id is registered", _NOT_ASKED)
    # fmt: on


def broker_error(code: int, place: str, detail: str | None = None) -> BrokerError:
    """The error for a code at ``place`` (request, topic-partition, broker).

    ``detail`` is what the broker itself says of it, where the reply has such a field.
    """
    return ErrorCode.error(code, place, detail)
