"""Peers behind TLS."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from .peers import Script


def serving(server: ssl.SSLContext, script: Script) -> Script:
    """The script behind TLS. Handshakes that fail are the client's to tell of."""

    def secured(connection: socket.socket) -> None:
        try:
            with server.wrap_socket(connection, server_side=True) as wrapped:
                script(wrapped)
        except OSError:
            pass

    return secured


def server_of(pem: Path) -> ssl.SSLContext:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    return server
