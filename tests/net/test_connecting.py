"""Client and broker agree on versions, or the client says why not, before one deadline."""

from __future__ import annotations

import importlib.metadata
import re
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from spark_kafkawire.errors import (
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    ProtocolError,
    RequestTimedOut,
    UnsupportedVersionError,
)
from spark_kafkawire.model import Broker
from spark_kafkawire.net import client as client_module
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.known_versions import BROKER_VERSIONS
from spark_kafkawire.net.settings import ConnectionSettings
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from spark_kafkawire.protocol.modern.describe_groups import DescribeGroupsResponse
from spark_kafkawire.protocol.modern.fetch import FetchResponse
from spark_kafkawire.protocol.modern.metadata import MetadataRequest, MetadataResponse
from spark_kafkawire.protocol.modern.minimum_versions import NO_MINIMUM, MinimumVersions
from spark_kafkawire.protocol.modern.negotiation import IDENTITY_SINCE, ApiVersionsResponse
from spark_kafkawire.version import VERSION
from tests.support.log_broker import LogBroker
from tests.support.mock_cluster import MockCluster
from tests.support.noida import NoidaBroker
from tests.support.old_brokers import Closes, answered
from tests.support.polling import GRACE_S
from tests.support.settings import settings_modern

from .modern_peers import METADATA_RESPONSE, OFFERED, Asked, answer, api_versions, asked, broker
from .peers import Peer, Script, read_frame, stalling

ALL_TOPICS: Final = MetadataRequest(topics=None)
#: The first question on a connection, and the first one that it is for: API and version.
#: Without the ids of cluster and broker.
ASKS: Final = ("ApiVersions", IDENTITY_SINCE - 1)
LEARNS: Final = ("Metadata", modern.METADATA.versions.max)


def connect(peer: Peer, timeout_s: float = 10) -> Client:
    return Client.connect(peer.broker, settings_modern(timeout_s))


def fails(peer: Peer, kind: type[KafkaWireError], timeout_s: float = 0.4) -> str:
    began_s = time.monotonic()
    with pytest.raises(kind) as error:
        connect(peer, timeout_s)
    assert time.monotonic() - began_s < timeout_s + GRACE_S
    assert str(error.value).startswith(f"broker 7 (127.0.0.1:{peer.broker.port}): ")
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_versions_in_common_with_a_foreign_broker_are_spoken(noida: NoidaBroker) -> None:
    with Client.connect(Broker(-1, "127.0.0.1", noida.port), settings_modern()) as client:
        assert client.version_of(modern.API_VERSIONS) == 3
        assert client.version_of(modern.FETCH) == 13
        assert client.request(ALL_TOPICS).brokers[0].port == noida.port


def test_a_broker_that_knows_no_newer_version_of_api_versions_is_asked_again() -> None:
    with MockCluster(brokers=1) as cluster:
        host, _, port = cluster.bootstrap_servers.partition(":")
        with Client.connect(Broker(-1, host, int(port)), settings_modern()) as client:
            assert client.version_of(modern.API_VERSIONS) == 2
            assert [item.node_id for item in client.request(ALL_TOPICS).brokers] == [1]


def test_the_first_request_asks_for_versions_and_names_the_client() -> None:
    seen: list[Asked] = []
    with Peer(broker(seen=seen)) as peer, connect(peer) as client:
        assert client.request(ALL_TOPICS) == METADATA_RESPONSE
    assert [(item.api.name, item.version, item.client_id) for item in seen] == [
        (*ASKS, "spark-kafkawire"),
        (*LEARNS, "spark-kafkawire"),
    ]
    software = seen[0].request
    assert software.client_software_name == "spark-kafkawire"
    assert software.client_software_version == importlib.metadata.version("spark-kafkawire")
    assert re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?", VERSION)


def test_each_request_goes_in_the_highest_common_version() -> None:
    offered = {**OFFERED, modern.METADATA.key: VersionRange(2, 7), modern.FETCH.key: VersionRange(101, 107)}
    seen: list[Asked] = []
    with Peer(broker(offered=offered, seen=seen)) as peer, connect(peer) as client:
        client.request(ALL_TOPICS)
        with pytest.raises(
            UnsupportedVersionError, match=r"Fetch: the broker offers 101-107, .* supports 0-\d\d; upgrade"
        ):
            client.version_of(modern.FETCH)
    assert [item.version for item in seen] == [ASKS[1], 7]


def test_a_broker_that_refuses_is_asked_twice_and_no_more() -> None:
    seen: list[Asked] = []
    refusing = broker({"ApiVersions": lambda _: api_versions(code=35)}, seen=seen)
    with Peer(refusing) as peer:
        assert "the broker does not know this version" in fails(peer, BrokerError)
    assert len(seen) == 2
    with Peer(broker({"ApiVersions": lambda _: api_versions(code=42)})) as peer:
        assert "ApiVersions: the broker does not understand the request" in fails(peer, BrokerError)


FETCH_RESPONSE: Final = FetchResponse(responses=())
#: What client and broker find out what to speak by, as API names and versions.
IN_DOUBT: Final = ("DescribeGroups", 0)
AFTER_A_CLOSE: Final = ("Fetch", 1)
IN_NO_VERSION: Final = ("Fetch", 32767)


@pytest.fixture
def in_doubt_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not answer ApiVersions is asked something else after a moment."""
    monkeypatch.setattr(client_module, "API_VERSIONS_ALONE_S", 0.05)


def old_broker(release: str, seen: list[tuple[str, int]]) -> Script:
    """A broker of 0.8 or 0.9 as they are."""
    names = {api.key: api.name for api in modern.DIALECT.apis}
    honest = LogBroker(Broker(0, "127.0.0.1", 1), {})

    def script(connection: socket.socket) -> None:
        while frame := read_frame(connection):
            key, version = struct.unpack_from(">hh", frame)
            seen.append((names[key], version))
            try:
                connection.sendall(b"".join(answered(release, honest, memoryview(frame))))
            except Closes:
                return

    return script


def versions_of(seen: list[Asked]) -> list[tuple[str, int]]:
    return [(item.api.name, item.version) for item in seen]


@pytest.mark.parametrize(
    ("release", "first", "again"),
    [
        ("0.8", [ASKS, AFTER_A_CLOSE, IN_NO_VERSION], [AFTER_A_CLOSE, IN_NO_VERSION]),
        ("0.9", [ASKS, IN_DOUBT], [ASKS, IN_DOUBT]),
    ],
)
@pytest.mark.usefixtures("in_doubt_soon")
def test_a_broker_of_0_8_or_0_9_proves_on_each_connection_what_it_is(
    release: str, first: list[tuple[str, int]], again: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int]] = []
    with Peer(old_broker(release, seen)) as peer:
        with connect(peer) as client:
            assert client.version_of(modern.METADATA) == 0
            assert len(client.request(ALL_TOPICS).brokers) == 1
        assert seen == [*first, ("Metadata", 0)]
        seen.clear()
        # It is proven anew, and nothing is waited for.
        monkeypatch.setattr(client_module, "API_VERSIONS_ALONE_S", 3600.0)
        with connect(peer) as client:
            client.request(ALL_TOPICS)
        assert seen == [*again, ("Metadata", 0)]


@pytest.mark.parametrize("release", ["0.8", "0.9"])
@pytest.mark.usefixtures("in_doubt_soon")
def test_a_broker_that_is_upgraded_is_spoken_to_in_its_new_versions_at_once(release: str) -> None:
    old = old_broker(release, [])
    before = [old, old] if release == "0.8" else [old]
    responses = {
        "Fetch": lambda _: FETCH_RESPONSE,
        "DescribeGroups": lambda _: DescribeGroupsResponse(groups=()),
    }
    with Peer(*before, broker(responses)) as peer:
        with connect(peer) as client:
            assert client.version_of(modern.METADATA) == 0
        with connect(peer) as client:
            assert client.version_of(modern.METADATA) == modern.METADATA.versions.max


@pytest.mark.parametrize(
    ("offered", "code", "again"),
    [
        (OFFERED, 0, []),
        ({**OFFERED, modern.API_VERSIONS.key: VersionRange(0, 2)}, 35, [("ApiVersions", 2)]),
    ],
    ids=["knows the version", "refuses the version"],
)
@pytest.mark.usefixtures("in_doubt_soon")
def test_a_slow_broker_is_waited_for_and_answers_both_questions(
    offered: dict[int, VersionRange], code: int, again: list[tuple[str, int]]
) -> None:
    seen: list[Asked] = []

    def slow(connection: socket.socket) -> None:
        first, second = asked(connection), asked(connection)
        assert first is not None
        assert second is not None
        seen.extend((first, second))
        answer(connection, first, api_versions(offered, code), version=0 if code else None)
        answer(connection, second, DescribeGroupsResponse(groups=()))
        broker(offered=offered, seen=seen)(connection)

    with Peer(slow) as peer, connect(peer) as client:
        assert client.request(ALL_TOPICS) == METADATA_RESPONSE
        assert peer.connection_count == 1
    assert versions_of(seen) == [ASKS, IN_DOUBT, *again, LEARNS]


def test_a_broker_that_was_going_down_is_asked_what_no_other_one_answers_so() -> None:
    seen: list[Asked] = []
    with Peer(close_at_once, broker({"Fetch": lambda _: FETCH_RESPONSE}, seen=seen)) as peer:
        with connect(peer) as client:
            assert client.version_of(modern.METADATA) == modern.METADATA.versions.max
            assert client.request(ALL_TOPICS).brokers == ()
        assert peer.connection_count == 2
    assert versions_of(seen) == [AFTER_A_CLOSE, ASKS, LEARNS]


def test_a_silent_broker_is_asked_again_on_another_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "API_VERSIONS_WAIT_S", 0.2)
    seen: list[Asked] = []
    with Peer(stalling(), broker(seen=seen)) as peer, connect(peer) as client:
        assert client.request(ALL_TOPICS) == METADATA_RESPONSE
    assert versions_of(seen) == [ASKS, LEARNS]


def close_at_once(connection: socket.socket) -> None:
    asked(connection)


def test_a_broker_that_closes_twice_is_an_error_that_names_the_options_of_those_who_know_better() -> None:
    with Peer(close_at_once, close_at_once, broker()) as peer:
        message = fails(peer, ConnectionLost)
        for part in (
            "closed the connection instead of answering ApiVersions",
            "; does this port need another kafka.security.protocol, or is the server not a broker of ",
            "kafka.api.version.request=false and kafka.broker.version.fallback=0.9.0",
        ):
            assert part in message
        with connect(peer) as client:
            assert client.version_of(modern.METADATA) == modern.METADATA.versions.max


def cut(response: bytes, then: Script) -> Script:
    """A broker of which the start of its first answer comes."""

    def script(connection: socket.socket) -> None:
        asked(connection)
        connection.sendall(response)
        then(connection)

    return script


def test_no_part_of_an_answer_makes_a_broker_an_old_one() -> None:
    whole = b"".join(modern.DIALECT.write_response(modern.API_VERSIONS, api_versions(), 4, 0))
    for size in (*range(24), len(whole) // 2, len(whole) - 1):
        first = cut(whole[:size], lambda _: None)
        with Peer(first, first, broker()) as peer:
            fails(peer, ConnectionLost, timeout_s=10)
            with connect(peer) as client:
                assert client.version_of(modern.METADATA) == modern.METADATA.versions.max
        BROKER_VERSIONS.forget()


@pytest.mark.parametrize("response", [b"\0\0\0\x08\0\0\0\0\0\0\0\1", b"\0\0\0\x07\0\0\0\0\0\0\0"])
def test_what_only_looks_like_the_answer_of_0_8_proves_nothing(response: bytes) -> None:
    with Peer(close_at_once, cut(response, lambda _: None)) as peer:
        fails(peer, ProtocolError, timeout_s=10)


def test_an_answer_in_version_0_alone_proves_nothing_of_a_broker_that_reads_versions() -> None:
    with Peer(close_at_once, cut(b"\0\0\0\x08\0\0\0\0\0\0\0\0", asks_no_more), broker()) as peer:
        fails(peer, ConnectionLost, timeout_s=10)
        with connect(peer) as client:
            assert client.version_of(modern.METADATA) == modern.METADATA.versions.max


def asks_no_more(connection: socket.socket) -> None:
    """Closes on the next request."""
    assert struct.unpack_from(">hh", read_frame(connection)) == (modern.FETCH.key, 32767)


@pytest.mark.usefixtures("in_doubt_soon")
def test_an_answer_to_a_question_that_was_not_asked_proves_nothing() -> None:
    def liar(connection: socket.socket) -> None:
        asked(connection)
        asked(connection)
        connection.sendall(b"\0\0\0\x08\0\0\0\2\0\0\0\0")

    with Peer(liar) as peer:
        assert "ApiVersions request 0 got the response to request 2" in fails(
            peer, ProtocolError, timeout_s=10
        )


def in_cluster(peer: Peer, *others: Peer, **changes: Any) -> ConnectionSettings:
    """Settings that name the brokers as those of one cluster."""
    servers = tuple(item.broker for item in (peer, *others))
    return replace(settings_modern(), bootstrap_servers=servers, **changes)


def refused(peer: Peer, settings: ConnectionSettings) -> str:
    with pytest.raises(KafkaWireError) as error:
        Client.connect(peer.broker, settings)
    assert error.value.retriable
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("release", ["0.8", "0.9"])
@pytest.mark.usefixtures("in_doubt_soon")
def test_no_broker_is_old_whose_cluster_has_listed_its_versions(release: str) -> None:
    seen: list[tuple[str, int]] = []
    with Peer(broker()) as peer, Peer(old_broker(release, seen)) as other:
        settings = in_cluster(peer, other)
        Client.connect(peer.broker, settings).close()
        message = refused(other, replace(settings, timeout_s=0.4))
        assert "has sent its versions before, so this one is not treated as 0.8 or 0.9" in message
    assert seen == [ASKS, ASKS]


@pytest.mark.parametrize("release", ["0.8", "0.9"])
@pytest.mark.usefixtures("in_doubt_soon")
def test_refuse_a_proof_where_the_cluster_has_listed_its_versions_meanwhile(
    release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Peer(broker()) as peer, Peer(old_broker(release, [])) as other:
        settings = in_cluster(peer, other)
        Client.connect(other.broker, settings).close()
        Client.connect(peer.broker, settings).close()
        with pytest.raises(
            ConnectFailed, match=f"the broker answers as one of Kafka {release}, but a broker of"
        ):
            BROKER_VERSIONS.minimum(settings, [peer.broker, other.broker])
        monkeypatch.setattr(client_module, "_may_be_old", lambda *_: True)
        assert f"the broker answers as one of Kafka {release}, but a broker of its" in refused(
            other, settings
        )


def test_ask_a_broker_that_listed_its_versions_once_for_nothing_else() -> None:
    seen: list[Asked] = []
    with Peer(broker(), close_at_once, broker(seen=seen)) as peer:
        connect(peer).close()
        with connect(peer) as client:
            assert client.version_of(modern.METADATA) == modern.METADATA.versions.max
    assert versions_of(seen) == [ASKS]


def offering(fetch: int, produce: int) -> Script:
    of_both = {modern.FETCH.key: VersionRange(0, fetch), modern.PRODUCE.key: VersionRange(0, produce)}
    return broker(offered={**OFFERED, **of_both})


@pytest.mark.parametrize(
    ("fetch", "produce", "missing"), [(3, 9, "Fetch 3 instead of 4"), (13, 2, "Produce 2 instead of 3")]
)
def test_a_broker_that_offers_less_than_before_is_refused(fetch: int, produce: int, missing: str) -> None:
    with Peer(offering(4, 3), offering(fetch, produce), offering(11, 8)) as peer:
        settings = in_cluster(peer)
        Client.connect(peer.broker, settings).close()
        assert f"the broker is older than it was before: it offers {missing}; " in refused(peer, settings)
        Client.connect(peer.broker, settings).close()


@pytest.mark.parametrize("release", ["0.8", "0.9"])
@pytest.mark.usefixtures("in_doubt_soon")
def test_a_task_refuses_brokers_older_than_planning_found_them(release: str) -> None:
    minimum = MinimumVersions(fetch=2, produce=2)
    with Peer(offering(1, 2), old_broker(release, [])) as peer:
        message = refused(peer, in_cluster(peer, minimum_versions=minimum))
        assert "older than its cluster when the query was planned: it offers Fetch 1 instead of 2" in message
        refused(peer, in_cluster(peer, minimum_versions=minimum, timeout_s=0.4))
        assert BROKER_VERSIONS.old_release(peer.broker) is None


def test_a_cluster_between_two_versions_is_as_old_as_its_oldest_broker() -> None:
    with Peer(offering(13, 9)) as new, Peer(offering(3, 2)) as old:
        settings = in_cluster(new, old)
        for peer in (new, old):
            Client.connect(peer.broker, settings).close()
        assert BROKER_VERSIONS.minimum(settings) == MinimumVersions(3, 2, 0)
        assert BROKER_VERSIONS.minimum(settings, [new.broker]) == MinimumVersions(4, 3, 0)
        assert BROKER_VERSIONS.minimum(settings, []) == NO_MINIMUM


def test_the_users_word_is_taken_and_nothing_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[str, int]] = []
    with Peer(old_broker("0.9", seen)) as peer:
        for release in ("0.8", "0.9"):
            with Client.connect(peer.broker, in_cluster(peer, assumed_release=release)) as client:
                assert len(client.request(ALL_TOPICS).brokers) == 1
    assert seen == [("Metadata", 0)] * 2
    assert not caplog.messages


def test_the_users_word_beats_that_of_brokers_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with Peer(broker()) as peer:
        settings = in_cluster(peer)
        Client.connect(peer.broker, settings).close()
        for _ in range(2):
            with Client.connect(peer.broker, replace(settings, assumed_release="0.9")) as client:
                assert client.version_of(modern.METADATA) == 0
    [message] = caplog.messages
    assert "has sent its versions, so it runs Kafka 0.10 or later; the client uses those of 0.9 " in message


def test_silence_ends_at_the_one_deadline() -> None:
    with Peer(stalling()) as peer:
        assert "no answer within 0.4 s (requestTimeout)" in fails(peer, RequestTimedOut)
        assert peer.connection_count == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "b'HTTP'; is this the port of a Kafka 0.8+ broker?"),
        (
            b"\x15\x03\x03\x00\x02\x02\x46",
            "begins like TLS; does this port want kafka.security.protocol=SSL?",
        ),
        (b"\x7f\xff\xff\xff", "announces 2147483647 bytes, at most 1048576"),
        (b"\xff\xff\xff\xff", "announces -1 bytes"),
        (b"\0\0\0\x04\0\0\0\x05", "got the response to request 5"),
        (b"\0\0\0\x04\0\0\0\0", "does not fit in a frame of 4 bytes"),
        (b"\0\0\0\x06\0\0\0\0\0\0", ""),
    ],
)
def test_a_peer_that_is_no_broker_is_an_error_at_once(data: bytes, message: str) -> None:
    def junk(connection: socket.socket) -> None:
        read = asked(connection)
        assert read is not None
        connection.sendall(data)
        stalling()(connection)

    with Peer(junk) as peer:
        reported = fails(peer, ProtocolError, timeout_s=5)
        assert message in reported
        assert peer.connection_count == 1


def test_only_a_close_on_the_first_request_is_taken_for_the_wrong_protocol() -> None:
    def answer_one(connection: socket.socket) -> None:
        for response in (api_versions(), METADATA_RESPONSE):
            question = asked(connection)
            assert question is not None
            answer(connection, question, response)
        asked(connection)

    with Peer(answer_one) as peer, connect(peer) as client:
        client.request(ALL_TOPICS)
        with pytest.raises(ConnectionLost, match=r"instead of answering Metadata; see its log$"):
            client.request(ALL_TOPICS)


def throttled(throttle_time_ms: int) -> Callable[[Asked], Any]:
    return lambda _: MetadataResponse(brokers=(), topics=(), throttle_time_ms=throttle_time_ms)


def test_a_throttled_client_waits_before_it_sends_again() -> None:
    with Peer(broker({"Metadata": throttled(300)})) as peer, connect(peer) as client:
        client.request(ALL_TOPICS)
        began_s = time.monotonic()
        client.send(ALL_TOPICS)
        assert 0.2 < time.monotonic() - began_s < 0.3 + GRACE_S
        client.receive()


@pytest.mark.parametrize(
    ("throttle_time_ms", "metadata_version"), [(60_000, 5), (-5, modern.METADATA.versions.max)]
)
def test_a_broker_that_has_waited_itself_is_not_waited_for_again(
    throttle_time_ms: int, metadata_version: int
) -> None:
    offered = {**OFFERED, modern.METADATA.key: VersionRange(0, metadata_version)}
    script = broker({"Metadata": throttled(throttle_time_ms)}, offered=offered)
    with Peer(script) as peer, connect(peer) as client:
        began_s = time.monotonic()
        for _ in range(2):
            client.request(ALL_TOPICS)
        assert time.monotonic() - began_s < GRACE_S


@pytest.mark.parametrize("throttle_time_ms", [3_600_000, 2**31 - 1])
def test_a_throttle_beyond_the_deadline_is_a_timeout(throttle_time_ms: int) -> None:
    with Peer(broker({"Metadata": throttled(throttle_time_ms)})) as peer, connect(peer, 0.3) as client:
        client.request(ALL_TOPICS)
        began_s = time.monotonic()
        with pytest.raises(RequestTimedOut, match=r"throttles this client .* \(requestTimeout\): a quota"):
            client.request(ALL_TOPICS)
        assert time.monotonic() - began_s < 0.3 + GRACE_S


def test_a_throttle_in_the_first_answer_counts_too() -> None:
    def response(question: Asked) -> ApiVersionsResponse:
        return api_versions(throttle_time_ms=200 if question.version >= 2 else 0)

    with Peer(broker({"ApiVersions": response})) as peer:
        began_s = time.monotonic()
        with connect(peer) as client:
            client.request(ALL_TOPICS)
        assert time.monotonic() - began_s > 0.15
