"""librdkafka's mock cluster: real TCP brokers in this process that fail as a test sets.

Broker ids are 1 to ``brokers``. Logs are in memory; there is no TLS and no login. An error of
``DISCONNECT`` closes the connection instead of answering.

The library is the one inside confluent-kafka's wheel, called with ctypes: its Python package has no
names for these functions. Source: librdkafka src/rdkafka_mock.h.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_int,
    c_int16,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
)
from dataclasses import dataclass
from importlib.metadata import files
from typing import Any, Final

#: Instead of an answer, the connection closes (librdkafka's RD_KAFKA_RESP_ERR__TRANSPORT).
DISCONNECT: Final = -195
#: In place of a broker id: every broker.
ALL_BROKERS: Final = -1
NO_LEADER: Final = -1

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
API_VERSIONS: Final = 18
INIT_PRODUCER_ID: Final = 22

_PRODUCER: Final = 0
_ERROR_SIZE: Final = 512


@dataclass(frozen=True, slots=True)
class TrackedRequest:
    """A request that a broker of the cluster got."""

    broker_id: int
    api_key: int


class MockCluster:
    """A cluster of TCP brokers on loopback, from ``start`` (or ``with``) to ``close``."""

    def __init__(self, brokers: int = 3) -> None:
        self._brokers = brokers
        self._library = _library()
        self._handle: int | None = None
        self._cluster: int | None = None

    def start(self) -> None:
        """Start its brokers."""
        assert self._cluster is None, "the mock cluster runs already"
        error = ctypes.create_string_buffer(_ERROR_SIZE)
        conf = self._library.rd_kafka_conf_new()
        # Its own instance connects to nothing; it logs each broker that a test takes down.
        self._library.rd_kafka_conf_set(conf, b"log_level", b"0", error, _ERROR_SIZE)
        self._handle = self._library.rd_kafka_new(_PRODUCER, conf, error, _ERROR_SIZE)
        assert self._handle, error.value.decode()
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._handle, self._brokers)
        assert self._cluster, "librdkafka made no mock cluster"

    def close(self) -> None:
        """End it; its connections close."""
        if self._cluster:
            self._library.rd_kafka_mock_cluster_destroy(self._cluster)
            self._cluster = None
        if self._handle:
            self._library.rd_kafka_destroy(self._handle)
            self._handle = None

    def __enter__(self) -> MockCluster:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers: ``host:port,host:port``."""
        address: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return address.decode()

    def create_topic(self, topic: str, partitions: int = 1, replicas: int = 1) -> None:
        """Create a topic; partition n is led by one of the brokers."""
        self._call("topic_create", topic.encode(), partitions, replicas)

    def set_topic_error(self, topic: str, error: int) -> None:
        """Answer Metadata for this topic with an error; 0 ends that."""
        self._library.rd_kafka_mock_topic_set_error(self._cluster, topic.encode(), error)

    def push_request_errors(self, api_key: int, *errors: int) -> None:
        """The next requests of an API fail so, one each, on whatever broker; 0 is a success."""
        codes = (c_int * len(errors))(*errors)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, api_key, len(errors), codes)

    def push_broker_errors(self, broker_id: int, api_key: int, *errors: tuple[int, int]) -> None:
        """The next requests of an API to one broker: an error (0: none) and a delay in ms, one each.

        They come before those of ``push_request_errors``.
        """
        pairs = [c_int(number) for pair in errors for number in pair]
        self._call("broker_push_request_error_rtts", broker_id, api_key, c_size_t(len(errors)), *pairs)

    def set_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Move a partition to a broker, or to none (``NO_LEADER``); the leader epoch goes up."""
        self._call("partition_set_leader", topic.encode(), partition, broker_id)

    def set_rack(self, broker_id: int, rack: str) -> None:
        """Give a broker a rack, which Metadata tells."""
        self._call("broker_set_rack", broker_id, rack.encode())

    def set_follower(self, topic: str, partition: int, broker_id: int) -> None:
        """The follower that the leader names to consumers; -1: none."""
        self._call("partition_set_follower", topic.encode(), partition, broker_id)

    def set_follower_wmarks(self, topic: str, partition: int, low: int, high: int) -> None:
        """The offsets that a follower has, of those of the leader."""
        self._call("partition_set_follower_wmarks", topic.encode(), partition, low, high)

    def push_leader_response(self, topic: str, partition: int, broker_id: int, leader_epoch: int) -> None:
        """The next Metadata names this leader, true or not."""
        self._call("partition_push_leader_response", topic.encode(), partition, broker_id, leader_epoch)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Move the start of a partition up to ``before_offset``."""
        self._call("partition_delete_records", topic.encode(), partition, before_offset)

    def set_broker_down(self, broker_id: int) -> None:
        """Close a broker's connections and accept none; what it leads it goes on leading."""
        self._call("broker_set_down", broker_id)

    def set_broker_up(self, broker_id: int) -> None:
        """Accept connections again."""
        self._call("broker_set_up", broker_id)

    def set_broker_rtt(self, broker_id: int, rtt_ms: int) -> None:
        """Answer so much later."""
        self._call("broker_set_rtt", broker_id, rtt_ms)

    def set_api_versions(self, api_key: int, version_min: int, version_max: int) -> None:
        """Serve an API in these versions only; (-1, -1): not at all."""
        self._call("set_apiversion", api_key, version_min, version_max)

    def set_coordinator(self, kind: str, key: str, broker_id: int) -> None:
        """The coordinator of a ``"group"`` or ``"transaction"``."""
        self._call("coordinator_set", kind.encode(), key.encode(), broker_id)

    def start_request_tracking(self) -> None:
        """Remember the requests from here on."""
        self._library.rd_kafka_mock_start_request_tracking(self._cluster)

    def clear_requests(self) -> None:
        """Forget the requests so far."""
        self._library.rd_kafka_mock_clear_requests(self._cluster)

    def requests(self) -> list[TrackedRequest]:
        """Requests to the brokers since tracking began, in order."""
        count = c_size_t()
        library = self._library
        result = library.rd_kafka_mock_get_requests(self._cluster, byref(count))
        tracked = [
            TrackedRequest(
                library.rd_kafka_mock_request_id(result[index]),
                library.rd_kafka_mock_request_api_key(result[index]),
            )
            for index in range(count.value)
        ]
        library.rd_kafka_mock_request_destroy_array(result, count)
        return tracked

    def _call(self, name: str, *arguments: object) -> None:
        error: int = getattr(self._library, f"rd_kafka_mock_{name}")(self._cluster, *arguments)
        assert error == 0, f"{name}{arguments}: {self._library.rd_kafka_err2name(error).decode()}"


@functools.cache
def _library() -> Any:
    """librdkafka, with the types of the functions that are called here."""
    # The wheel's folder of libraries has its name; the package itself has a module named librdkafka too.
    [path] = [
        file
        for file in files("confluent-kafka") or ()
        if file.name.startswith("librdkafka") and ".libs" in str(file.parent)
    ]
    library = ctypes.CDLL(str(path.locate()))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


# Without a declared type, ctypes would cut pointers to 32 bits.
_SIGNATURES: Final[dict[str, tuple[Any, list[Any]]]] = {
    "rd_kafka_conf_new": (c_void_p, []),
    "rd_kafka_conf_set": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
    "rd_kafka_new": (c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
    "rd_kafka_destroy": (None, [c_void_p]),
    "rd_kafka_err2name": (c_char_p, [c_int]),
    "rd_kafka_mock_cluster_new": (c_void_p, [c_void_p, c_int]),
    "rd_kafka_mock_cluster_destroy": (None, [c_void_p]),
    "rd_kafka_mock_cluster_bootstraps": (c_char_p, [c_void_p]),
    "rd_kafka_mock_topic_create": (c_int, [c_void_p, c_char_p, c_int, c_int]),
    "rd_kafka_mock_topic_set_error": (None, [c_void_p, c_char_p, c_int]),
    "rd_kafka_mock_push_request_errors_array": (None, [c_void_p, c_int16, c_size_t, POINTER(c_int)]),
    "rd_kafka_mock_broker_push_request_error_rtts": (c_int, [c_void_p, c_int32, c_int16, c_size_t]),
    "rd_kafka_mock_partition_set_leader": (c_int, [c_void_p, c_char_p, c_int32, c_int32]),
    "rd_kafka_mock_broker_set_rack": (c_int, [c_void_p, c_int32, c_char_p]),
    "rd_kafka_mock_partition_set_follower": (c_int, [c_void_p, c_char_p, c_int32, c_int32]),
    "rd_kafka_mock_partition_set_follower_wmarks": (c_int, [c_void_p, c_char_p, c_int32, c_int64, c_int64]),
    "rd_kafka_mock_partition_push_leader_response": (c_int, [c_void_p, c_char_p, c_int, c_int32, c_int32]),
    "rd_kafka_mock_partition_delete_records": (c_int, [c_void_p, c_char_p, c_int32, c_int64]),
    "rd_kafka_mock_broker_set_down": (c_int, [c_void_p, c_int32]),
    "rd_kafka_mock_broker_set_up": (c_int, [c_void_p, c_int32]),
    "rd_kafka_mock_broker_set_rtt": (c_int, [c_void_p, c_int32, c_int]),
    "rd_kafka_mock_set_apiversion": (c_int, [c_void_p, c_int16, c_int16, c_int16]),
    "rd_kafka_mock_coordinator_set": (c_int, [c_void_p, c_char_p, c_char_p, c_int32]),
    "rd_kafka_mock_start_request_tracking": (None, [c_void_p]),
    "rd_kafka_mock_clear_requests": (None, [c_void_p]),
    "rd_kafka_mock_get_requests": (POINTER(c_void_p), [c_void_p, POINTER(c_size_t)]),
    "rd_kafka_mock_request_id": (c_int32, [c_void_p]),
    "rd_kafka_mock_request_api_key": (c_int16, [c_void_p]),
    "rd_kafka_mock_request_destroy_array": (None, [POINTER(c_void_p), c_size_t]),
}
