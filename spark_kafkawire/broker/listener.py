"""The socket that a broker accepts connections on."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket

from ..errors import ConnectFailed, printable


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address; port 0 is any free one. Raises ``ConnectFailed``.

    Connections to a loopback address use Reno, which every Linux has. The host's congestion control is meant
    for a network: BBR, which many hosts use, paces packets by timers, which costs more CPU than the copy
    itself.
    """
    try:
        listener = socket.create_server((host, port), backlog=128)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ConnectFailed(
            f"cannot listen on {printable(host)}:{port}: {reason}; choose another port"
        ) from error
    if ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
        # Other systems than Linux have no such option.
        with contextlib.suppress(AttributeError, OSError):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    return listener
