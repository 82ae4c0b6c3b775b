"""The broker's listening socket."""

import socket
import sys

import pytest

from spark_kafkawire.broker.listener import listen

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a socket choose")


def _congestion_control(sock: socket.socket) -> str:
    name: bytes = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return name.rstrip(b"\0").decode()


def test_what_is_sent_over_loopback_is_not_paced() -> None:
    with (
        listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert _congestion_control(accepted) == "reno"


def test_what_is_sent_over_a_network_goes_as_the_host_likes() -> None:
    with listen("0.0.0.0", 0) as listener, socket.socket() as other:
        assert _congestion_control(listener) == _congestion_control(other)
