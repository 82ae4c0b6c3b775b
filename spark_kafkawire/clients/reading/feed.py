"""How the bytes of a range are requested and decoded: what the fetch loop leaves to the generation."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from ...model import Leader, OffsetRange, WireFormat
from ...options import FetchOptions
from ...protocol.connection import Reply
from ...records.columns import Columns


class Feed(Protocol):
    """The requests for one range, and what their replies hold. No socket, no waiting.

    ``next_offset`` is the first offset that was not fetched yet, ``offset`` the first one that was not
    decoded. ``bytes_received`` counts record bytes.
    """

    @property
    def next_offset(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def bytes_received(self) -> int: ...

    @property
    def done(self) -> bool:
        """Whether all of the range was fetched and decoded."""

    def requests(self, leader: Leader) -> Iterator[object]:
        """Requests to send now; none where enough are in flight."""

    def received(self, reply: Reply) -> None:
        """Take a reply. Raises ``BrokerError`` with the action that its error code asks for."""

    def columns(self) -> Iterator[Columns]:
        """The rows of what was fetched, in order.

        Raises ``BrokerError`` as ``received``, ``CorruptDataError``, ``LimitError`` (fatal).
        """

    def restart(self, offset: int | None = None) -> None:
        """Request again what was not received: the connection was lost.

        With ``offset``, go on there and forget what was not decoded.
        """


def _of_07(range: OffsetRange, options: FetchOptions, wanted: Container[str]) -> Feed:
    from .v07.window_feed import WindowFeed

    return WindowFeed(range, options, wanted)


def _of_the_proposal(range: OffsetRange, options: FetchOptions, wanted: Container[str]) -> Feed:
    from .v07.poll_feed import PollFeed

    return PollFeed(range, options, wanted)


def _of_modern(range: OffsetRange, options: FetchOptions, wanted: Container[str]) -> Feed:
    from .modern.batch_feed import BatchFeed

    return BatchFeed(range, options, wanted)


FEEDS: Final[Mapping[WireFormat, Callable[[OffsetRange, FetchOptions, Container[str]], Feed]]] = (
    MappingProxyType(
        {WireFormat.V07: _of_07, WireFormat.PROPOSAL: _of_the_proposal, WireFormat.MODERN: _of_modern}
    )
)
