"""Interface of the requests for packs, for both generations, and the requests of each wire format.

A pack asks for ranges of many partitions in one request. ``pack`` sends it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol

from spark_kafkawire.model import WireFormat
from spark_kafkawire.options import FetchOptions
from spark_kafkawire.protocol.connection import Response


class Packing(Protocol):
    """The requests of several ranges as one, and the parts of its response."""

    #: Bytes from which a request asks for no further range.
    bytes_max: int

    def bytes_of(self, request: Any) -> int:
        """The largest size of the records that the request of one range asks for."""

    def packed(self, requests: Sequence[Any]) -> object:
        """One request for all."""

    def parts(self, response: Response, requests: Sequence[Any]) -> Sequence[Response | None]:
        """The part of each request; None if the response had no room for it. Raises ``EmptyFetch`` if it had
        room for none."""


def _of_07(options: FetchOptions) -> Packing:
    from .v07.multifetch import MultiFetches

    return MultiFetches(options)


def _of_modern(options: FetchOptions) -> Packing:
    from .modern.packed_fetches import PackedFetches

    return PackedFetches(options)


#: The proposal of 2012 is missing: its fetches have no size, so that one response would be too large.
PACKINGS: Final[Mapping[WireFormat, Callable[[FetchOptions], Packing]]] = MappingProxyType(
    {WireFormat.V07: _of_07, WireFormat.MODERN: _of_modern}
)
