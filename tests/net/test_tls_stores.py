"""Connections to a broker with Java's stores, versions and cipher suites."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from ssl import TLSVersion
from typing import Final

import pytest

from spark_kafkawire.errors import AuthenticationError
from spark_kafkawire.model import Broker
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.settings import Security
from spark_kafkawire.net.stores import Store, identity_of, trust_of
from spark_kafkawire.net.tls import Tls, TlsLimits
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from tests.support.certificates import SERVER_NAME
from tests.support.java_stores import (
    CLIENT_STORES,
    FOLDER,
    SERVER,
    STORE_PASSWORD,
    TRUST_STORES,
    pem_of,
    stored,
)
from tests.support.settings import settings_modern

from .modern_peers import METADATA_RESPONSE, broker
from .peers import Peer, Script
from .tls_peers import server_of, serving

ALL_TOPICS: Final = MetadataRequest(topics=None)
TRUST: Final = pem_of("authority.pem")
AES_128: Final = "ECDHE-ECDSA-AES128-GCM-SHA256"
AES_256: Final = "ECDHE-ECDSA-AES256-GCM-SHA384"


def connect(peer: Peer, tls: Tls) -> Client:
    settings = replace(settings_modern(10), security=Security(tls=tls))
    return Client.connect(Broker(7, SERVER_NAME, peer.broker.port), settings)


def is_served(peer: Peer, tls: Tls) -> bool:
    with connect(peer, tls) as client:
        return bool(client.request(ALL_TOPICS) == METADATA_RESPONSE)


def refused(peer: Peer, tls: Tls) -> str:
    with pytest.raises(AuthenticationError) as error:
        is_served(peer, tls)
    return str(error.value)


@pytest.fixture
def asking() -> Iterator[Peer]:
    """A broker that asks for a certificate, and knows the authority alone: the client sends those between."""
    server = server_of(SERVER)
    server.load_verify_locations(FOLDER / "authority.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    with Peer(serving(server, broker())) as peer:
        yield peer


@pytest.mark.parametrize(("name", "key_password"), CLIENT_STORES.items())
def test_a_client_is_let_in_with_each_key_store(asking: Peer, name: str, key_password: str | None) -> None:
    identity = identity_of(Store(stored(name), STORE_PASSWORD, key_password))
    assert is_served(asking, Tls(trust=TRUST, identity=identity))


@pytest.mark.parametrize("name", TRUST_STORES)
def test_a_broker_is_trusted_by_each_trust_store(name: str) -> None:
    with Peer(serving(server_of(SERVER), broker())) as peer:
        assert is_served(peer, Tls(trust=trust_of(Store(stored(name), STORE_PASSWORD))))


@pytest.mark.parametrize("kind", ["jks", "p12"])
def test_the_chain_of_a_key_is_not_trusted(kind: str) -> None:
    trust = trust_of(Store(stored(f"key-and-trust.{kind}"), STORE_PASSWORD))
    with Peer(serving(server_of(SERVER), broker())) as peer:
        assert "the broker's certificate is not trusted" in refused(peer, Tls(trust=trust))


def noting(agreed: list[tuple[str, str]]) -> Script:
    """A broker that notes version and suite of its connections."""

    def script(connection: socket.socket) -> None:
        assert isinstance(connection, ssl.SSLSocket)
        cipher = connection.cipher()
        assert cipher is not None
        agreed.append((str(connection.version()), cipher[0]))
        broker()(connection)

    return script


def test_the_first_suite_that_both_have_is_agreed_on() -> None:
    agreed: list[tuple[str, str]] = []
    server = server_of(SERVER)
    server.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    limits = TlsLimits(highest=TLSVersion.TLSv1_2)
    with Peer(serving(server, noting(agreed))) as peer:
        for suites in ((AES_128,), (AES_256,), (AES_128, AES_256), (AES_256, AES_128)):
            assert is_served(peer, Tls(trust=TRUST, limits=limits._replace(suites=suites)))
    assert agreed == [("TLSv1.2", suite) for suite in (AES_128, AES_256, AES_128, AES_256)]


def test_versions_are_agreed_on_within_the_limits() -> None:
    agreed: list[tuple[str, str]] = []
    versions = {"TLSv1.2": TLSVersion.TLSv1_2, "TLSv1.3": TLSVersion.TLSv1_3}
    with Peer(serving(server_of(SERVER), noting(agreed))) as peer:
        for version in versions.values():
            assert is_served(peer, Tls(trust=TRUST, limits=TlsLimits(version, version)))
        assert is_served(peer, Tls(trust=TRUST))
    assert [version for version, _ in agreed] == ["TLSv1.2", "TLSv1.3", "TLSv1.3"]


@pytest.mark.parametrize("suites", [(), (AES_128,)])
def test_a_broker_without_the_only_version_is_told(suites: tuple[str, ...]) -> None:
    server = server_of(SERVER)
    server.minimum_version = TLSVersion.TLSv1_3
    tls = Tls(trust=TRUST, limits=TlsLimits(highest=TLSVersion.TLSv1_2, suites=suites))
    with Peer(serving(server, broker())) as peer:
        assert refused(peer, tls).endswith(
            "the broker does not support TLS 1.2, the only version that kafka.ssl.enabled.protocols, "
            "kafka.ssl.protocol and kafka.ssl.cipher.suites leave; change them, or its ssl.enabled.protocols"
        )


def test_a_broker_without_a_suite_of_the_list_is_told() -> None:
    server = server_of(SERVER)
    server.maximum_version = TLSVersion.TLSv1_2
    server.set_ciphers(AES_256)
    tls = Tls(trust=TRUST, limits=TlsLimits(highest=TLSVersion.TLSv1_2, suites=(AES_128,)))
    with Peer(serving(server, broker())) as peer:
        assert "does it support a suite of kafka.ssl.cipher.suites" in refused(peer, tls)
