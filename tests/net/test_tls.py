"""TLS to a broker: whom the client trusts, who it is, and what each refusal says to do."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
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
from spark_kafkawire.net.tls import RECORD_BYTES_MAX, Tls, TlsTransport, context
from spark_kafkawire.net.transport import Deadline, Transport
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from tests.support.certificates import KEY_PASSWORD, SERVER_NAME, Certificates
from tests.support.polling import GRACE_S, poll
from tests.support.settings import settings_modern

from .modern_peers import METADATA_RESPONSE, broker
from .peers import Peer, Script, read_frame, stalling
from .tls_peers import server_of, serving

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


def test_a_trusted_broker_is_talked_to(certificates: Certificates) -> None:
    with (
        Peer(serving(server_of(certificates.server), broker())) as peer,
        connect(peer, trusting(certificates)) as client,
    ):
        assert client.request(ALL_TOPICS) == METADATA_RESPONSE


def test_a_server_certificate_is_trusted_where_it_is_in_the_trust_itself(certificates: Certificates) -> None:
    trust = certificates.server.read_text().partition("-----BEGIN CERT")
    with (
        Peer(serving(server_of(certificates.server), broker())) as peer,
        connect(peer, Tls(trust=trust[1] + trust[2])) as client,
    ):
        assert client.request(ALL_TOPICS) == METADATA_RESPONSE


def test_an_unknown_authority_is_refused(certificates: Certificates) -> None:
    with Peer(serving(server_of(certificates.server), broker())) as peer:
        for tls in (Tls(), Tls(trust=certificates.other_authority.read_text())):
            message = fails(peer, tls)
            assert (
                "the broker's certificate is not trusted: unable to get local issuer certificate" in message
            )
            assert message.endswith(
                "set kafka.ssl.truststore.location to a store of the authorities to trust"
            )
        assert peer.connection_count == 2


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


def test_an_authority_is_checked_where_host_names_are_not(certificates: Certificates) -> None:
    stranger = Tls(trust=certificates.other_authority.read_text(), checks_host_name=False)
    with Peer(serving(server_of(certificates.server), broker())) as peer:
        assert "unable to get local issuer certificate" in fails(peer, stranger)


def test_an_expired_certificate_is_refused(certificates: Certificates) -> None:
    with Peer(serving(server_of(certificates.expired), broker())) as peer:
        assert "certificate has expired" in fails(peer, trusting(certificates))


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
def test_tls_1_1_is_refused(certificates: Certificates) -> None:
    server = server_of(certificates.server)
    # OpenSSL offers versions before 1.2 at its lowest security level only.
    server.set_ciphers("ALL:@SECLEVEL=0")
    server.minimum_version = server.maximum_version = ssl.TLSVersion.TLSv1_1
    with Peer(serving(server, broker())) as peer:
        assert "the broker does not support TLS 1.2 or later" in fails(peer, trusting(certificates))


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


def test_a_client_without_a_certificate_is_told_what_to_set(asking: Peer, certificates: Certificates) -> None:
    message = fails(asking, trusting(certificates))
    assert "the broker refuses the TLS connection: " in message
    assert "kafka.ssl.keystore.location" in message


def test_a_strangers_certificate_is_refused(asking: Peer, certificates: Certificates) -> None:
    message = fails(asking, known_as(certificates, certificates.stranger))
    assert "the broker refuses the TLS connection: unknown ca" in message


@pytest.mark.parametrize("password", [None, "wrong"])
def test_an_encrypted_key_with_a_wrong_password_is_told(
    certificates: Certificates, password: str | None
) -> None:
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
def test_texts_without_a_certificate_are_told(text: str) -> None:
    for tls in (Tls(trust=text), Tls(identity=text)):
        with pytest.raises(
            OptionError, match=r"^options kafka\.ssl\.(trust|key)store\.\*: cannot read a .*"
        ) as error:
            context(tls)
        assert "\n" not in str(error.value)


def test_a_key_of_another_certificate_is_told(certificates: Certificates) -> None:
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


@pytest.mark.parametrize("script", [stalling(), lambda connection: connection.sendall(b"\x16\x03\x03")])
def test_a_handshake_that_does_not_end_fails_at_the_deadline(
    script: Script, certificates: Certificates
) -> None:
    def silent(connection: socket.socket) -> None:
        script(connection)
        stalling()(connection)

    with Peer(silent) as peer:
        began_s = time.monotonic()
        message = fails(peer, trusting(certificates), ConnectFailed, timeout_s=0.3)
        assert "no TLS handshake within 0.3 s (requestTimeout)" in message
        assert time.monotonic() - began_s < 0.3 + GRACE_S


@pytest.mark.parametrize("host", ["", ".localhost", "a..b"])
def test_a_host_that_no_certificate_can_name_is_an_error(host: str, certificates: Certificates) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with pytest.raises(ConnectFailed, match="no TLS connection to"):
            TlsTransport.over(Transport(ours), trusting(certificates), host, Deadline.after(1))
        assert ours.fileno() == -1


def test_a_connection_is_closed_where_texts_cannot_be_used() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with pytest.raises(OptionError, match="cannot read a certificate"):
            TlsTransport.over(Transport(ours), Tls(trust="nothing"), SERVER_NAME, Deadline.after(1))
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


def test_a_refusal_is_told_where_a_send_meets_it(certificates: Certificates) -> None:
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


def test_no_repr_shows_certificates_or_keys(certificates: Certificates) -> None:
    shown = repr(settings(known_as(certificates, certificates.client_encrypted, KEY_PASSWORD)))
    assert "BEGIN" not in shown
    assert KEY_PASSWORD not in shown
