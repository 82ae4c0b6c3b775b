"""Requests to the metadata endpoints of clouds: plain http to an address that only the machine reaches.

Elsewhere nothing answers at these addresses, so that the time to connect is short.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from spark_kafkawire.errors import AuthenticationError, ConnectFailed
from spark_kafkawire.net.http import Url, ask
from spark_kafkawire.net.transport import Deadline

from .endpoint import object_in

#: Longest time to connect, seconds.
DIAL_S: Final = 2.0
_OK: Final = 200


def metadata_of(address: str, headers: Mapping[str, str], what: str, deadline: Deadline) -> bytes:
    """The body of a good answer. ``what`` names the endpoint.

    Raises ``AuthenticationError`` (fatal) if it refuses, ``TransportError`` (retriable).
    """
    url = Url.parse(address)
    if url is None:
        raise AuthenticationError(f"{what}: its address is not a URL; correct the environment variable of it")
    bound = replace(deadline, dial_s=DIAL_S, dial_option="metadata endpoint")
    answer = ask(url, "GET", headers, None, None, bound)
    if answer.is_temporary:
        raise ConnectFailed(f"the endpoint answers with HTTP status {answer.status}; try again later")
    if answer.status != _OK:
        raise AuthenticationError(
            f"{what} refuses the request: HTTP status {answer.status}; check the identity of the machine"
        )
    return answer.body


def object_of(address: str, headers: Mapping[str, str], what: str, deadline: Deadline) -> dict[str, Any]:
    """The JSON object of a good answer. Raises as ``metadata_of`` does."""
    return object_in(metadata_of(address, headers, what, deadline))
