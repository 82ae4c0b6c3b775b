"""TLS to a broker: whom the client trusts, who it is, and what each refusal says to do."""

from __future__ import annotations

import random
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from ssl import TLSVersion
from typing import Final

import pytest

from spark_kafkawire.errors import (
    AuthenticationError,
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    OptionError,
    ProtocolError,
)
from spark_kafkawire.model import Broker
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.net.settings import ConnectionSettings, Security
from spark_kafkawire.net.stores import Store, StoreError, identity_of, kind_of, trust_of
from spark_kafkawire.net.tls import RECORD_BYTES_MAX, Tls, TlsLimits, TlsTransport, context
from spark_kafkawire.net.transport import Deadline, Transport
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from tests.support.cases import for_each
from tests.support.certificates import KEY_PASSWORD, SERVER_NAME, Certificates
from tests.support.java_stores import (
    CLIENT_STORES,
    NOT_ASCII,
    SERVER,
    STORE_PASSWORD,
    TRUST_STORES,
    blocks_of,
    pem_of,
    stored,
)
from tests.support.java_stores import KEY_PASSWORD as KEY_OF_STORES
from tests.support.polling import GRACE_S, poll
from tests.support.settings import settings_modern

from .modern_peers import METADATA_RESPONSE, broker
from .peers import Peer, Script, drip, read_frame, server_of, serving, stalling

ALL_TOPICS: Final = MetadataRequest(topics=None)


def trusting(certificates: Certificates) -> Tls:
    return Tls(trust=certificates.authority.read_text())


def known_as(certificates: Certificates, pem: Path, password: str | None = None) -> Tls:
    return replace(trusting(certificates), identity=pem.read_text(), key_password=password)


def settings(tls: Tls | None, timeout_s: float = 10) -> ConnectionSettings:
    return replace(settings_modern(timeout_s), security=Security(tls=tls))


def connect(peer: Peer, tls: Tls | None, host: str = SERVER_NAME, timeout_s: float = 10) -> Client:
    return Client.connect(Broker(7, host, peer.broker.port), settings(tls, timeout_s))


def fails(
    peer: Peer,
    tls: Tls | None,
    kind: type[KafkaWireError] = AuthenticationError,
    host: str = SERVER_NAME,
    timeout_s: float = 10,
) -> str:
    with pytest.raises(kind) as error:
        connect(peer, tls, host, timeout_s).request(ALL_TOPICS)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"broker 7 ({host}:{peer.broker.port}): ")
    return str(error.value)


def test_a_broker_is_trusted_by_its_authority_or_by_its_certificate_itself(
    certificates: Certificates,
) -> None:
    _, begin, chain = certificates.server.read_text().partition("-----BEGIN CERT")
    with Peer(serving(server_of(certificates.server), broker())) as peer:
        for tls in (trusting(certificates), Tls(trust=begin + chain)):
            with connect(peer, tls) as client:
                assert client.request(ALL_TOPICS) == METADATA_RESPONSE


def test_an_unknown_authority_is_refused(certificates: Certificates) -> None:
    other = Tls(trust=certificates.other_authority.read_text())
    with Peer(serving(server_of(certificates.server), broker())) as peer:
        for tls in (Tls(), other, replace(other, checks_host_name=False)):
            message = fails(peer, tls)
            assert (
                "the server's certificate is not trusted: unable to get local issuer certificate" in message
            )
            assert message.endswith(
                "set kafka.ssl.truststore.location to a store of the authorities to trust"
            )
        assert peer.connection_count == 3


def test_what_the_system_trusts_is_trusted_without_a_trust_of_ones_own(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    context.cache_clear()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    other = Tls(trust=certificates.other_authority.read_text())
    with Peer(serving(server_of(certificates.server), broker())) as peer:
        for tls in (Tls(), replace(other, adds_system_trust=True)):
            with connect(peer, tls) as client:
                assert client.request(ALL_TOPICS) == METADATA_RESPONSE
        assert "unable to get local issuer certificate" in fails(peer, other)
    context.cache_clear()


def test_a_wrong_host_name_is_refused_unless_the_check_is_given_up(certificates: Certificates) -> None:
    with Peer(serving(server_of(certificates.server), broker())) as peer:
        message = fails(peer, trusting(certificates), host="127.0.0.1")
        assert "IP address mismatch, certificate is not valid for '127.0.0.1'" in message
        assert "kafka.ssl.endpoint.identification.algorithm to an empty value" in message
        unchecked = replace(trusting(certificates), checks_host_name=False)
        with connect(peer, unchecked, host="127.0.0.1") as client:
            assert client.request(ALL_TOPICS) == METADATA_RESPONSE


def test_a_mapped_address_has_the_certificate_of_the_advertised_one(certificates: Certificates) -> None:
    with Peer(serving(server_of(certificates.server), broker())) as peer:
        target = ("127.0.0.1", peer.broker.port)  # the certificate has no such name
        for host in (SERVER_NAME, "kafka-0.svc"):
            secured = replace(settings(trusting(certificates)), address_map=(((host, 9092), target),))
            if host == SERVER_NAME:
                with Client.connect(Broker(7, host.upper(), 9092), secured) as client:
                    assert client.request(ALL_TOPICS) == METADATA_RESPONSE
                continue
            with pytest.raises(AuthenticationError) as error:
                Client.connect(Broker(7, host, 9092), secured)
            location = f"broker 7 (kafka-0.svc:9092) at 127.0.0.1:{peer.broker.port} (brokerAddressMap): "
            assert str(error.value).startswith(location)
            assert "not valid for 'kafka-0.svc'" in str(error.value)


def test_an_expired_certificate_is_refused(certificates: Certificates) -> None:
    with Peer(serving(server_of(certificates.expired), broker())) as peer:
        assert "certificate has expired; renew it at the server" in fails(peer, trusting(certificates))


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
def test_tls_1_1_is_refused(certificates: Certificates) -> None:
    server = server_of(certificates.server)
    # OpenSSL offers versions before 1.2 at its lowest security level only.
    server.set_ciphers("ALL:@SECLEVEL=0")
    server.minimum_version = server.maximum_version = ssl.TLSVersion.TLSv1_1
    with Peer(serving(server, broker())) as peer:
        assert "the server does not support TLS 1.2 or later" in fails(peer, trusting(certificates))


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["TLS 1.2", "TLS 1.3"])
def asking(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[Peer]:
    """A broker that asks for the client's certificate."""
    server = server_of(certificates.server)
    server.load_verify_locations(certificates.authority)
    server.verify_mode = ssl.CERT_REQUIRED
    server.minimum_version = server.maximum_version = request.param
    with Peer(serving(server, broker())) as peer:
        yield peer


def test_a_client_with_a_certificate_is_let_in(asking: Peer, certificates: Certificates) -> None:
    for tls in (
        known_as(certificates, certificates.client),
        known_as(certificates, certificates.client_encrypted, KEY_PASSWORD),
    ):
        with connect(asking, tls) as client:
            assert client.request(ALL_TOPICS) == METADATA_RESPONSE


def test_a_client_without_a_known_certificate_reports_what_to_set(
    asking: Peer, certificates: Certificates
) -> None:
    message = fails(asking, trusting(certificates))
    assert "the server refuses the TLS connection: " in message
    assert "kafka.ssl.keystore.location" in message
    message = fails(asking, known_as(certificates, certificates.stranger))
    assert "the server refuses the TLS connection: unknown ca" in message


@pytest.mark.parametrize("password", [None, "wrong"])
def test_report_a_wrong_password_of_a_key(certificates: Certificates, password: str | None) -> None:
    with pytest.raises(OptionError) as error:
        context(known_as(certificates, certificates.client_encrypted, password))
    assert str(error.value).startswith(
        "options kafka.ssl.keystore.*: cannot read a private key with its certificate"
    )
    assert ("with this kafka.ssl.key.password" in str(error.value)) == (password is not None)
    assert "wrong" not in str(error.value).replace("wrong password", "")


@pytest.mark.parametrize(
    "text", ["", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_report_texts_without_a_certificate(text: str) -> None:
    for tls in (Tls(trust=text), Tls(identity=text)):
        with pytest.raises(
            OptionError, match=r"^options kafka\.ssl\.(trust|key)store\.\*: cannot read a .*"
        ) as error:
            context(tls)
        assert "\n" not in str(error.value)


def test_report_a_key_of_another_certificate(certificates: Certificates) -> None:
    key, _, _ = certificates.client.read_text().partition("-----BEGIN CERT")
    _, begin, chain = certificates.stranger.read_text().partition("-----BEGIN CERT")
    with pytest.raises(OptionError, match="key values mismatch"):
        context(Tls(identity=key + begin + chain))


def close_without_a_word(connection: socket.socket) -> None:
    """A broker's plaintext port: the handshake looks like a frame of a gigabyte."""
    connection.recv(1 << 16)


def answer_in_plain_text(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 100)


def test_tls_to_a_plaintext_port_says_so(certificates: Certificates) -> None:
    hint = "does this port need kafka.security.protocol=PLAINTEXT or SASL_PLAINTEXT?"
    with Peer(close_without_a_word) as peer:
        message = fails(peer, trusting(certificates), ConnectFailed)
        assert "the TLS handshake failed: " in message
        assert message.endswith(hint)
    with Peer(answer_in_plain_text) as peer:
        message = fails(peer, trusting(certificates))
        assert "the peer does not speak TLS" in message
        assert message.endswith(hint)


def test_plain_text_to_a_tls_port_says_so(certificates: Certificates) -> None:
    with Peer(serving(server_of(certificates.server), broker())) as peer:
        with pytest.raises((ProtocolError, ConnectionLost)) as error:
            connect(peer, None)
        assert "kafka.security.protocol" in str(error.value)
        assert "\n" not in str(error.value)


def dripping(connection: socket.socket) -> None:
    """The head of a record, and its bytes one by one."""
    connection.recv(1 << 16)
    connection.sendall(b"\x16\x03\x03\x40\x00")
    drip(connection, b"\0")


@pytest.mark.parametrize("script", [stalling(), lambda item: item.sendall(b"\x16\x03\x03"), dripping])
def test_an_endless_handshake_fails_at_the_deadline(script: Script, certificates: Certificates) -> None:
    def silent(connection: socket.socket) -> None:
        script(connection)
        stalling()(connection)

    with Peer(silent) as peer:
        began_s = time.monotonic()
        message = fails(peer, trusting(certificates), ConnectFailed, timeout_s=0.3)
        assert "no TLS handshake within 0.3 s (requestTimeout)" in message
        assert time.monotonic() - began_s < 0.3 + GRACE_S


@for_each(
    ("host", "trust", "kind", "message"),
    [
        *((host, None, ConnectFailed, "no TLS connection to") for host in ("", ".localhost", "a..b")),
        (SERVER_NAME, "nothing", OptionError, "cannot read a certificate"),
    ],
)
def test_a_connection_is_closed_where_host_or_trust_cannot_be_used(
    host: str, trust: str | None, kind: type[KafkaWireError], message: str, certificates: Certificates
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        tls = trusting(certificates) if trust is None else Tls(trust=trust)
        with pytest.raises(kind, match=message):
            TlsTransport.over(Transport(ours), tls, host, Deadline.after(1))
        assert ours.fileno() == -1


def test_a_large_answer_is_taken_as_it_comes(certificates: Certificates) -> None:
    # OpenSSL has a part of a record, so the system would wait for more bytes than are left.
    whole = bytes(range(256)) * 2048

    def answer(connection: socket.socket) -> None:
        read_frame(connection)
        connection.sendall(whole)

    with Peer(serving(server_of(certificates.server), answer)) as peer:
        transport, deadline = transport_to(peer, trusting(certificates)), Deadline.after(20)
        transport.send([bytes(4)], deadline)
        data, filled = bytearray(len(whole)), 0
        while filled < len(whole):
            filled += transport.receive_into(memoryview(data)[filled:], deadline, is_due=True)
            assert transport._sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1
        transport.close()
    assert data == whole


def test_large_and_many_small_buffers_arrive_in_order(certificates: Certificates) -> None:
    sizes = [4, 1, 0, 30_000, *[7] * 5000, RECORD_BYTES_MAX, RECORD_BYTES_MAX + 1, 1 << 20, 3]
    parts = [bytes([index % 251]) * size for index, size in enumerate(sizes)]
    whole = b"".join(parts)
    received: list[bytes] = []

    def keep(connection: socket.socket) -> None:
        received.append(read_frame(connection))
        connection.sendall(b"!")

    with Peer(serving(server_of(certificates.server), keep)) as peer:
        transport, deadline = transport_to(peer, trusting(certificates)), Deadline.after(20)
        transport.send([len(whole).to_bytes(4, "big"), *parts], deadline)
        assert transport.receive_into(memoryview(bytearray(9)), deadline) == 1
        assert transport.receive_into(memoryview(bytearray(9)), deadline) == 0
        transport.close()
    assert received == [whole]


def transport_to(peer: Peer, tls: Tls) -> TlsTransport:
    deadline = Deadline.after(20)
    plain = Transport.connect(Broker(7, SERVER_NAME, peer.broker.port), deadline)
    return TlsTransport.over(plain, tls, SERVER_NAME, deadline)


def test_report_a_refusal_where_a_send_meets_it(certificates: Certificates) -> None:
    server = server_of(certificates.server)
    server.verify_mode = ssl.CERT_REQUIRED
    server.minimum_version = ssl.TLSVersion.TLSv1_3
    with Peer(serving(server, broker())) as peer:
        transport = transport_to(peer, trusting(certificates))
        poll(lambda: not transport.is_quiet(), "the broker has closed")

        def send_until_it_fails() -> None:
            while True:
                transport.send([bytes(1 << 16)], Deadline.after(5))

        with pytest.raises(AuthenticationError, match="certificate required"):
            send_until_it_fails()
        transport.close()


def test_bytes_that_lie_decrypted_already_are_no_quiet(certificates: Certificates) -> None:
    def two_bytes(connection: socket.socket) -> None:
        connection.sendall(b"ab")
        stalling()(connection)

    with Peer(serving(server_of(certificates.server), two_bytes)) as peer:
        transport = transport_to(peer, trusting(certificates))
        one = memoryview(bytearray(1))
        assert transport.receive_into(one, Deadline.after(5)) == 1
        assert not transport.is_quiet()
        assert transport.receive_into(one, Deadline.after(5)) == 1
        assert transport.is_quiet()
        transport.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_kept_tls_connection_is_taken_again(version: ssl.TLSVersion, certificates: Certificates) -> None:
    server = server_of(certificates.server)
    server.minimum_version = server.maximum_version = version
    pool = Pool()
    with Peer(serving(server, broker())) as peer:
        address, how = Broker(7, SERVER_NAME, peer.broker.port), settings(trusting(certificates))
        first = pool.take(address, how)
        pool.give_back(first)
        assert pool.take(address, settings(trusting(certificates))) is first
        assert first.request(ALL_TOPICS) == METADATA_RESPONSE
        pool.give_back(first)
        other = pool.take(address, settings(replace(trusting(certificates), checks_host_name=False)))
        assert other is not first
        other.close()
        pool.close_idle()


# --- Connections to a broker with Java's stores, versions and cipher suites ---

TRUST: Final = pem_of("authority.pem")
AES_128: Final = "ECDHE-ECDSA-AES128-GCM-SHA256"
AES_256: Final = "ECDHE-ECDSA-AES256-GCM-SHA384"


def is_served(peer: Peer, tls: Tls) -> bool:
    with connect(peer, tls) as client:
        return bool(client.request(ALL_TOPICS) == METADATA_RESPONSE)


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
def test_report_a_broker_without_the_only_version(suites: tuple[str, ...]) -> None:
    server = server_of(SERVER)
    server.minimum_version = TLSVersion.TLSv1_3
    tls = Tls(trust=TRUST, limits=TlsLimits(highest=TLSVersion.TLSv1_2, suites=suites))
    with Peer(serving(server, broker())) as peer:
        assert fails(peer, tls).endswith(
            "the server does not support TLS 1.2, the only version that kafka.ssl.enabled.protocols, "
            "kafka.ssl.protocol and kafka.ssl.cipher.suites leave; change them, or its ssl.enabled.protocols"
        )


def test_report_a_broker_without_a_suite_of_the_list() -> None:
    server = server_of(SERVER)
    server.maximum_version = TLSVersion.TLSv1_2
    server.set_ciphers(AES_256)
    tls = Tls(trust=TRUST, limits=TlsLimits(highest=TLSVersion.TLSv1_2, suites=(AES_128,)))
    with Peer(serving(server, broker())) as peer:
        assert "does it support a suite of kafka.ssl.cipher.suites" in fails(peer, tls)


# --- Stores that Java made ---

PASSWORD_NAME: Final = "x.keystore.password"
KEY_PASSWORD_NAME: Final = "x.key.password"
PASSWORDS: Final = (STORE_PASSWORD, KEY_OF_STORES, *NOT_ASCII)
Read = Callable[[Store], str]


def store(name: str, password: str | None = STORE_PASSWORD, key_password: str | None = None) -> Store:
    return Store(stored(name), password, key_password, PASSWORD_NAME, KEY_PASSWORD_NAME)


def store_fails(read: Read, given: Store) -> str:
    with pytest.raises(StoreError) as error:
        read(given)
    message = str(error.value)
    assert message.isprintable()
    assert not any(password in message for password in (*PASSWORDS, given.password) if password)
    return message


def read_or_message(read: Read, given: Store) -> str:
    try:
        return read(given)
    except StoreError as error:
        return str(error)


@for_each(("name", "key_password"), CLIENT_STORES.items())
def test_a_key_comes_out_of_each_kind_of_store_with_its_chain(name: str, key_password: str | None) -> None:
    assert identity_of(store(name, key_password=key_password)) == pem_of("client.pem")


@pytest.mark.parametrize(("name", "trusted"), TRUST_STORES.items())
def test_trusted_certificates_come_out_of_each_kind_of_store(name: str, trusted: tuple[str, ...]) -> None:
    assert sorted(blocks_of(trust_of(store(name)))) == sorted(blocks_of(pem_of(*trusted)))


@pytest.mark.parametrize("name", ["client.jks", "client.p12", "client-openssl.p12"])
def test_a_key_makes_its_own_certificate_trusted_and_no_authority(name: str) -> None:
    assert blocks_of(trust_of(store(name))) == [blocks_of(pem_of("client.pem"))[1]]


@pytest.mark.parametrize("kind", ["jks", "p12"])
def test_a_key_and_a_trusted_certificate_share_a_store(kind: str) -> None:
    trusted = trust_of(store(f"key-and-trust.{kind}"))
    client = blocks_of(pem_of("client.pem"))[1]
    assert sorted(blocks_of(trusted)) == sorted([client, *blocks_of(pem_of("other.pem"))])


@pytest.mark.parametrize("kind", ["jks", "p12"])
def test_two_keys_are_refused_by_their_names(kind: str) -> None:
    message = store_fails(identity_of, store(f"two-keys.{kind}"))
    assert message == (
        "it has 2 private keys ('client', 'second'), and nothing says which one to use; copy one into a "
        "store of its own: keytool -importkeystore -srckeystore FILE -srcalias ALIAS -destkeystore NEW"
    )
    assert store_fails(trust_of, store("two-keys.p12")) == message


@pytest.mark.parametrize("kind", ["PRIVATE KEY", "RSA PRIVATE KEY", "ENCRYPTED PRIVATE KEY"])
def test_two_keys_of_pem_are_refused(kind: str) -> None:
    one = pem_of("client.pem")
    other = pem_of("server.pem").replace("PRIVATE KEY", kind)
    both = Store((one + other).encode())
    assert store_fails(identity_of, both) == (
        "it has 2 private keys, and nothing says which one to use; leave one in it"
    )
    assert trust_of(both) == one + other


def test_names_of_keys_are_not_shown_where_one_is_a_password() -> None:
    message = store_fails(identity_of, store("two-keys.p12", password="client"))
    assert message.startswith("it has 2 private keys, and nothing says")


# Without encrypted certificates and a MAC nothing shows that a password is wrong.
@for_each(
    "name",
    sorted(
        {*CLIENT_STORES, *TRUST_STORES, "two-keys.jks", "empty.jks", "empty.p12"}
        - {"trust-no-password.p12", "client-no-mac.p12"}
    ),
)
def test_a_wrong_password_is_refused(name: str) -> None:
    for password in ("wrong", "", STORE_PASSWORD + " ", STORE_PASSWORD.upper()):
        assert store_fails(trust_of, store(name, password)).startswith(
            f"{PASSWORD_NAME} is not its password, or the "
        )


@pytest.mark.slow
def test_a_key_without_a_mac_opens_with_its_password_alone() -> None:
    """The padding of a wrong key is right once in 256 times: that is no key yet."""
    right = store("client-no-mac.p12")
    for number in range(300):
        message = store_fails(identity_of, replace(right, password=f"wrong {number}"))
        assert message.startswith(f"{PASSWORD_NAME} is not its password")
    assert identity_of(right) == pem_of("client.pem")


def test_a_trust_store_needs_a_password_where_java_needs_it() -> None:
    for password in (None, "", "anything"):
        assert trust_of(store("trust-no-password.p12", password)) == pem_of("authority.pem")
    assert len(blocks_of(trust_of(store("trust.jks", None)))) == 2
    for name in ("trust.p12", "trust-legacy.p12", "empty.p12"):
        assert store_fails(trust_of, store(name, None)) == f"it has a password; set {PASSWORD_NAME}"


@for_each("name", [*CLIENT_STORES, "trust.jks", "empty.p12"])
def test_a_key_store_needs_its_password(name: str) -> None:
    assert store_fails(identity_of, store(name, None)) == f"it has a password; set {PASSWORD_NAME}"


def test_distinguish_the_password_of_a_key_from_that_of_its_store() -> None:
    assert store_fails(identity_of, store("client.jks")) == (
        f"its key has another password than the store; set {KEY_PASSWORD_NAME}"
    )
    for name in ("client.jks", "client-same-password.jks"):
        message = store_fails(identity_of, store(name, key_password="wrong"))
        assert message == f"{KEY_PASSWORD_NAME} is not the password of its key; check it with keytool -list"
    assert store_fails(identity_of, store("client.p12", key_password=KEY_OF_STORES)) == (
        f"PKCS12 has one password for the store and its key: set {KEY_PASSWORD_NAME} as {PASSWORD_NAME}, or "
        "leave it out"
    )
    for name in ("client.p12", "client-same-password.jks"):
        assert identity_of(store(name, key_password=STORE_PASSWORD)) == pem_of("client.pem")


def test_passwords_may_have_any_character_in_jks() -> None:
    password, key_password = NOT_ASCII
    result = identity_of(store("not-ascii.jks", password, key_password))
    assert len(blocks_of(result)) == 4
    assert store_fails(identity_of, store("not-ascii.jks", password)).startswith(
        "its key has another password"
    )


@pytest.mark.parametrize("kind", ["jks", "p12"])
def test_report_a_store_without_what_it_is_for(kind: str) -> None:
    assert store_fails(trust_of, store(f"empty.{kind}")).startswith("it has no certificate to trust")
    for name in ("empty", "trust"):
        message = store_fails(identity_of, store(f"{name}.{kind}"))
        assert message == "it has no private key; give the key store, not the trust store"


@pytest.mark.parametrize("kind", ["JCEKS", "BCFKS"])
@pytest.mark.parametrize("read", [trust_of, identity_of])
def test_other_kinds_of_stores_are_refused_by_name(read: Read, kind: str) -> None:
    message = store_fails(read, store(f"client.{kind.lower()}"))
    assert message.startswith(
        f"{kind} stores are not supported; convert it: keytool -importkeystore -srckeystore "
    )
    assert message.endswith(f"-deststoretype PKCS12 -srcstoretype {kind}")


def test_kinds_are_known_by_what_stores_contain() -> None:
    for name in (*CLIENT_STORES, *TRUST_STORES, "authority.pem"):
        kind = {"jks": "JKS", "p12": "PKCS12", "pem": "PEM"}[name.rpartition(".")[2]]
        assert kind_of(stored(name)) == kind
        # The end of a file does not change that.
        assert kind_of(stored(name)[:40]) == kind
    assert kind_of(b"0 lines of a text that begins as DER\n" + stored("authority.pem")) == "PEM"


@pytest.mark.parametrize("data", [b"", b"0", b"\xfe\xed", b"PK\3\4", bytes(100), b"\x30\x82\x01\x00\x30\x03"])
def test_report_anything_else(data: bytes) -> None:
    for read in (trust_of, identity_of):
        assert "neither JKS nor PKCS12" in store_fails(read, Store(data, "x"))


def test_secrets_are_in_no_repr() -> None:
    shown = repr(store("client.jks", key_password=KEY_OF_STORES))
    assert STORE_PASSWORD not in shown
    assert KEY_OF_STORES not in shown
    assert "FE" not in shown.upper()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["client.jks", "trust.jks", "client.p12", "client-legacy.p12", "client-bc.p12", "client-no-mac.p12",
     "trust-no-password.p12", "trust.p12", "client.pem"],
)  # fmt: skip
def test_every_damage_is_an_error_or_harmless(name: str) -> None:
    data, key_password = stored(name), CLIENT_STORES.get(name)
    right = store(name, key_password=key_password)
    draw = random.Random(name)
    # PKCS12 is opened by work that takes time for each try; what is read before is at its beginning.
    drawn = sorted({*range(0, 60, 3), *draw.sample(range(len(data)), 12)})
    positions = range(len(data)) if name.endswith("jks") else drawn
    damages = [
        data[:pos] + bytes([data[pos] ^ 1 << draw.randrange(8)]) + data[pos + 1 :] for pos in positions
    ]
    damages += [data[:size] for size in range(0, len(data), 7 if name.endswith("jks") else 149)]
    damages += [data + b"\0", data + data, data[1:]]
    # Without a password, too: the hash of JKS is not checked then.
    for damaged in damages:
        for read, password in ((trust_of, None), (identity_of, STORE_PASSWORD)):
            result = read_or_message(read, replace(right, data=damaged, password=password))
            assert blocks_of(result) or (result.isprintable() and STORE_PASSWORD not in result)


def test_a_store_that_takes_hours_to_open_is_refused_at_once() -> None:
    rounds = b"\x02\x03\x00\xc8\x00"
    data = stored("client-bc.p12")
    assert data.count(rounds) == 2
    more = replace(store("client-bc.p12"), data=data.replace(rounds, b"\x02\x03\x7f\xff\xff", 1))
    for read in (trust_of, identity_of):
        assert store_fails(read, more) == (
            f"its encryption takes {0x7FFFFF + 51200 + 102400} rounds of hashing, more than 5000000; make it "
            "again: keytool -importkeystore -srckeystore FILE -destkeystore NEW"
        )


@pytest.mark.parametrize(
    "inside", [b"\x30\x80" * 500_000, b"\x30\x00" * 500_000, b"\x30\x84\xff\xff\xff\xff", b"\x30\x80\0\0"]
)
def test_nested_and_repeated_elements_are_damage(inside: bytes) -> None:
    for read in (trust_of, identity_of):
        message = store_fails(read, Store(b"\x30\x80\x02\x01\x03" + inside, "x"))
        assert message.startswith("the file is damaged: its structure is not that of PKCS12")


def test_without_its_library_pkcs12_says_what_to_install() -> None:
    script = """
import sys
sys.modules["cryptography"] = None
from spark_kafkawire.net.stores import Store, StoreError, identity_of, trust_of
from tests.support.java_stores import STORE_PASSWORD, blocks_of, stored
print(len(blocks_of(trust_of(Store(stored("trust.jks"), STORE_PASSWORD)))))
try:
    trust_of(Store(stored("trust.p12"), STORE_PASSWORD))
except StoreError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == (
        "2\nit is a PKCS12 store, which needs a library: pip install cryptography; or convert "
        "it: keytool -importkeystore -srckeystore FILE -destkeystore store.jks -deststoretype JKS\n"
    ), done.stderr
