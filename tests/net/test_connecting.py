"""Client and broker agree on versions, or the client says why not, before one deadline."""

from __future__ import annotations

import importlib.metadata
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from spark_kafkawire.errors import (
    BrokerError,
    ConnectionLost,
    KafkaWireError,
    ProtocolError,
    RequestTimedOut,
    UnsupportedVersionError,
)
from spark_kafkawire.model import Broker
from spark_kafkawire.net import connecting
from spark_kafkawire.net.client import Client
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.dialect import VersionRange
from spark_kafkawire.protocol.modern.api_versions import ApiVersionsReply
from spark_kafkawire.protocol.modern.fetch import FetchReply
from spark_kafkawire.protocol.modern.metadata import MetadataReply, MetadataRequest
from tests.support.mock_cluster import MockCluster
from tests.support.noida import NoidaBroker
from tests.support.polling import GRACE_S
from tests.support.settings import settings_modern

from .modern_peers import METADATA_REPLY, OFFERED, Asked, answer, api_versions, asked, broker
from .peers import Peer, Script, stalling

ALL_TOPICS: Final = MetadataRequest(topics=None)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What is known of old brokers belongs to addresses that other tests may get again."""
    yield
    connecting._old_brokers.clear()


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
            assert [each.node_id for each in client.request(ALL_TOPICS).brokers] == [1]


def test_the_first_request_asks_for_versions_and_names_the_client() -> None:
    seen: list[Asked] = []
    with Peer(broker(seen=seen)) as peer, connect(peer) as client:
        assert client.request(ALL_TOPICS) == METADATA_REPLY
    assert [(each.api.name, each.version, each.client_id) for each in seen] == [
        ("ApiVersions", 4, "spark-kafkawire"),
        ("Metadata", 12, "spark-kafkawire"),
    ]
    software = seen[0].request
    assert software.client_software_name == "spark-kafkawire"
    assert software.client_software_version == importlib.metadata.version("spark-kafkawire")


@pytest.mark.parametrize(
    ("version", "told"),
    [("1.2.3", "1.2.3"), ("1", "1"), ("1.0+local", "unknown"), ("1.", "unknown"), (None, "unknown")],
)
def test_brokers_are_told_no_version_of_the_client_that_they_refuse(
    version: str | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed(_: str) -> str:
        if version is None:
            raise importlib.metadata.PackageNotFoundError
        return version

    monkeypatch.setattr(importlib.metadata, "version", installed)
    connecting._software_version.cache_clear()
    assert connecting._software_version() == told
    connecting._software_version.cache_clear()


def test_each_request_goes_in_the_highest_common_version() -> None:
    offered = {**OFFERED, modern.METADATA.key: VersionRange(2, 7), modern.FETCH.key: VersionRange(14, 17)}
    seen: list[Asked] = []
    with Peer(broker(offered=offered, seen=seen)) as peer, connect(peer) as client:
        client.request(ALL_TOPICS)
        with pytest.raises(UnsupportedVersionError, match=r"Fetch: the broker offers 14-17, known .* 0-13"):
            client.version_of(modern.FETCH)
    assert [each.version for each in seen] == [4, 7]


def test_a_refusal_that_names_its_versions_is_followed() -> None:
    offered = {**OFFERED, modern.API_VERSIONS.key: VersionRange(0, 1)}
    seen: list[Asked] = []
    with Peer(broker(offered=offered, seen=seen)) as peer, connect(peer) as client:
        client.request(ALL_TOPICS)
    assert [(each.api.name, each.version) for each in seen] == [
        ("ApiVersions", 4),
        ("ApiVersions", 1),
        ("Metadata", 12),
    ]


def test_a_broker_that_refuses_every_version_is_asked_twice_and_no_more() -> None:
    seen: list[Asked] = []
    refusing = broker({"ApiVersions": lambda _: api_versions(code=35)}, seen=seen)
    with Peer(refusing) as peer:
        assert "the broker does not know this version" in fails(peer, BrokerError)
    assert len(seen) == 2


def test_an_error_instead_of_versions_is_told() -> None:
    with Peer(broker({"ApiVersions": lambda _: api_versions(code=42)})) as peer:
        assert "ApiVersions: the broker does not understand the request" in fails(peer, BrokerError)


def closing_on_api_versions(seen: list[Asked]) -> Script:
    """Kafka 0.8: an unknown request ends the connection."""
    return old_broker(seen, lambda _: None)


def silent_on_api_versions(seen: list[Asked]) -> Script:
    """Kafka 0.9.0: an unknown request is ignored."""
    return old_broker(seen, lambda connection: stalling()(connection))


def old_broker(seen: list[Asked], on_api_versions: Callable[[socket.socket], None]) -> Script:
    def script(connection: socket.socket) -> None:
        while (question := asked(connection)) is not None:
            seen.append(question)
            if question.api.name == "ApiVersions":
                on_api_versions(connection)
                return
            answer(connection, question, METADATA_REPLY if question.api is modern.METADATA else FETCH_REPLY)

    return script


FETCH_REPLY: Final = FetchReply(responses=())


@pytest.mark.parametrize("old", [closing_on_api_versions, silent_on_api_versions])
def test_a_broker_older_than_api_versions_is_spoken_to_in_its_own_versions(
    old: Callable[[list[Asked]], Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "API_VERSIONS_WAIT_S", 0.2)
    monkeypatch.setattr(connecting, "AGAIN_WAIT_S", 0.2)
    seen: list[Asked] = []
    with Peer(old(seen)) as peer:
        with connect(peer) as client:
            assert client.version_of(modern.METADATA) == 0
            assert client.request(ALL_TOPICS).brokers == ()
        assert [(each.api.name, each.version) for each in seen] == [
            ("ApiVersions", 4),
            ("Fetch", 0),
            ("ApiVersions", 4),
            ("Metadata", 0),
        ]
        assert seen[1].request.topics == ()
        # It is known now: the next connection asks nothing.
        with connect(peer) as client:
            client.request(ALL_TOPICS)
        assert peer.connection_count == 4
        assert seen[-1].api is modern.METADATA


def test_an_old_broker_is_asked_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "OLD_BROKER_S", 0.0)
    with Peer(*[closing_on_api_versions([])] * 3, broker()) as peer:
        with connect(peer) as client:
            assert client.version_of(modern.METADATA) == 0
        with connect(peer) as client:
            assert client.version_of(modern.METADATA) == 12


@pytest.mark.parametrize("first", [lambda _: None, stalling()], ids=["restarts", "is slow"])
def test_a_modern_broker_that_is_not_ready_at_first_is_not_taken_for_an_old_one(
    first: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "API_VERSIONS_WAIT_S", 0.2)
    seen: list[Asked] = []
    modern_broker = broker({"Fetch": lambda _: FETCH_REPLY}, seen=seen)
    with Peer(first, modern_broker) as peer, connect(peer) as client:
        assert client.version_of(modern.METADATA) == 12
        assert client.request(ALL_TOPICS).brokers == ()
        assert peer.connection_count == 2
    assert [(each.api.name, each.version) for each in seen] == [
        ("Fetch", 0),
        ("ApiVersions", 4),
        ("Metadata", 12),
    ]


def close_at_once(connection: socket.socket) -> None:
    asked(connection)


def test_a_broker_that_is_going_down_is_not_taken_for_an_old_one() -> None:
    with Peer(close_at_once, close_at_once, broker()) as peer:
        message = fails(peer, ConnectionLost)
        assert "closed the connection instead of answering ApiVersions" in message
        assert "; does this port want another kafka.security.protocol, or is it no broker of " in message
        with connect(peer) as client:
            assert client.version_of(modern.METADATA) == 12


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
        (b"\0\0\0\x04\0\0\0\x05", "got the reply to request 5"),
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
        told = fails(peer, ProtocolError, timeout_s=5)
        assert message in told
        assert peer.connection_count == 1


def test_only_a_close_on_the_first_request_is_taken_for_the_wrong_protocol() -> None:
    def answer_one(connection: socket.socket) -> None:
        for reply in (api_versions(), METADATA_REPLY):
            question = asked(connection)
            assert question is not None
            answer(connection, question, reply)
        asked(connection)

    with Peer(answer_one) as peer, connect(peer) as client:
        client.request(ALL_TOPICS)
        with pytest.raises(ConnectionLost, match=r"instead of answering Metadata$"):
            client.request(ALL_TOPICS)


def throttled(throttle_time_ms: int) -> Callable[[Asked], Any]:
    return lambda _: MetadataReply(brokers=(), topics=(), throttle_time_ms=throttle_time_ms)


def test_a_throttled_client_waits_before_it_sends_again() -> None:
    with Peer(broker({"Metadata": throttled(300)})) as peer, connect(peer) as client:
        client.request(ALL_TOPICS)
        began_s = time.monotonic()
        client.send(ALL_TOPICS)
        assert 0.2 < time.monotonic() - began_s < 0.3 + GRACE_S
        client.receive()


def test_a_broker_that_has_waited_itself_is_not_waited_for_again() -> None:
    offered = {**OFFERED, modern.METADATA.key: VersionRange(0, 5)}
    with Peer(broker({"Metadata": throttled(60_000)}, offered=offered)) as peer, connect(peer) as client:
        began_s = time.monotonic()
        client.request(ALL_TOPICS)
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


def test_a_negative_throttle_is_none() -> None:
    with Peer(broker({"Metadata": throttled(-5)})) as peer, connect(peer) as client:
        client.request(ALL_TOPICS)
        client.request(ALL_TOPICS)


def test_a_throttle_in_the_first_answer_counts_too() -> None:
    def reply(question: Asked) -> ApiVersionsReply:
        return api_versions(throttle_time_ms=200 if question.version >= 2 else 0)

    with Peer(broker({"ApiVersions": reply})) as peer:
        began_s = time.monotonic()
        with connect(peer) as client:
            client.request(ALL_TOPICS)
        assert time.monotonic() - began_s > 0.15
