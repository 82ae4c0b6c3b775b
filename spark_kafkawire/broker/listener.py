"""The socket that a broker accepts connections on."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket

from ..errors import ConnectFailed, shown


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address; port 0 is any free one. Raises ``ConnectFailed``.

    The host's congestion control is meant for its network. On loopback there is none to protect, and
    BBR, which many hosts use, paces what is sent by timers, which costs more CPU than the copy does:
    connections to a loopback address use Reno, which every Linux has.
    """
    try:
        listener = socket.create_server((host, port), backlog=128)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ConnectFailed(f"cannot listen on {shown(host)}:{port}: {reason}") from error
    if ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
        # Other systems than Linux have no such option.
        with contextlib.suppress(AttributeError, OSError):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    return listener
