"""Tests of the helper: Python's TLS accepts and refuses these certificates as the tests need it."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest

from tests.support.certificates import KEY_PASSWORD, SERVER_NAME, Certificates


def _handshake(certificates: Certificates, context: ssl.SSLContext, name: str = SERVER_NAME) -> None:
    """Connect to a server that asks for a client's certificate."""
    server_context = _lenient(
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates.authority)
    )
    server_context.load_cert_chain(certificates.server)
    server_context.verify_mode = ssl.CERT_REQUIRED
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with server_context.wrap_socket(theirs, server_side=True) as connection:
                connection.sendall(b"!")
        except OSError:
            theirs.close()

    server = threading.Thread(target=serve)
    server.start()
    try:
        with context.wrap_socket(ours, server_hostname=name) as connection:
            assert connection.recv(1) == b"!"
    finally:
        ours.close()
        server.join()


def _lenient(context: ssl.SSLContext) -> ssl.SSLContext:
    """The default of Python 3.13 refuses authorities that do not say what their keys are for, as many of
    companies do not, and as those of the tests, which Java and ``net.tls`` take."""
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _client(authority: Path, key: Path, password: str | None = None) -> ssl.SSLContext:
    context = _lenient(ssl.create_default_context(cafile=authority))
    context.load_cert_chain(key, password=password)
    return context


def test_server_and_client_of_one_authority_trust_each_other(certificates: Certificates) -> None:
    _handshake(certificates, _client(certificates.authority, certificates.client))
    _handshake(certificates, _client(certificates.authority, certificates.client_encrypted, KEY_PASSWORD))


def test_the_wrong_authority_name_and_client_are_refused(certificates: Certificates) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
        _handshake(certificates, _client(certificates.other_authority, certificates.client))
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        _handshake(certificates, _client(certificates.authority, certificates.client), "127.0.0.1")
    with pytest.raises(OSError, match="UNKNOWN_CA"):
        _handshake(certificates, _client(certificates.authority, certificates.stranger))
