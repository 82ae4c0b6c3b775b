"""What differs between the protocols of old and new brokers, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import ProtocolError
from ..model import OffsetUnit
from .primitives import INT16, Buffer
from .schema import Struct


@dataclass(frozen=True, slots=True)
class Api:
    """One request type and its reply.

    ``response`` is None where the broker never answers. ``reply_bytes_max`` tells from a request
    how long its reply may be: a longer one is a lie, refused before memory is taken for it.
    """

    name: str
    key: int
    request: type[Any]
    response: type[Any] | None = None
    reply_bytes_max: Callable[[Any], int] = lambda _: 0


@dataclass(frozen=True, slots=True)
class Dialect:
    """A protocol: its requests, and what its offsets count.

    ``correlates`` tells whether replies carry the id of their request; where they do not, they
    come in the order of the requests. A request frame of a dialect that does not correlate::

        length int32 | api key int16 | request
    """

    name: str
    offset_unit: OffsetUnit
    correlates: bool
    apis: tuple[Api, ...]

    def api_of(self, request: object) -> Api:
        """The API that a request message belongs to."""
        return next(api for api in self.apis if api.request is type(request))

    def write_request(self, request: object) -> list[Buffer]:
        """The request's frame, as buffers to send one after the other."""
        api = self.api_of(request)
        out: list[Buffer] = []
        INT16.write(api.key, out)
        Struct(api.request).write(request, out)
        return [sum(map(len, out)).to_bytes(4, "big"), *out]

    def read_request(self, body: memoryview) -> tuple[Api, Any]:
        """The request in a frame's body (what follows the length). Extra bytes are ignored.

        Raises ``ProtocolError`` for an unknown key or a short body.
        """
        key, pos = INT16.read(body, 0)
        for api in self.apis:
            if api.key == key:
                return api, Struct(api.request).read(body, pos)[0]
        raise ProtocolError(f"unknown request type {key}")

    def read_reply(self, api: Api, body: memoryview) -> Any:
        """The reply in a frame's body. Raises ``ProtocolError`` unless it fills the body."""
        assert api.response is not None
        reply, end = Struct(api.response).read(body, 0)
        if end != len(body):
            raise ProtocolError(f"{api.name} reply of {len(body)} bytes ends after {end}")
        return reply

    def write_reply(self, api: Api, reply: object) -> list[Buffer]:
        """The reply's frame: ``length int32 | reply``."""
        assert api.response is not None
        out: list[Buffer] = []
        Struct(api.response).write(reply, out)
        return [sum(map(len, out)).to_bytes(4, "big"), *out]
