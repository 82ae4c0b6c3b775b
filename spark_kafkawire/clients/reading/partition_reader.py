"""Interface of the readers of a range, for both generations, and the reader of each wire format.

A reader makes the fetch requests for one range of a partition and decodes their responses. ``fetcher`` sends
them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from spark_kafkawire.model import Leader, OffsetRange, WireFormat
from spark_kafkawire.options import FetchOptions
from spark_kafkawire.protocol.connection import Response
from spark_kafkawire.records.columns import Columns

from .task import Gaps


class PartitionReader(Protocol):
    """The requests for one range and the rows of their responses. No socket, no waiting.

    ``next_offset`` is the first offset that is not fetched yet, ``offset`` the first one that is not decoded.
    ``bytes_received`` counts record bytes. ``gaps`` are those of the last response.
    """

    @property
    def next_offset(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def bytes_received(self) -> int: ...

    @property
    def gaps(self) -> Gaps | None: ...

    @property
    def done(self) -> bool:
        """True after the whole range was fetched and decoded."""

    def requests(self, leader: Leader) -> Iterator[object]:
        """Requests to send now; none if enough are in flight."""

    def received(self, response: Response) -> None:
        """Accept a response. Raises ``BrokerError`` with the action of its error code, and
        ``Contradiction``."""

    def columns(self) -> Iterator[Columns]:
        """The fetched rows, in order.

        Raises ``BrokerError`` as ``received``, ``CorruptDataError``, ``LimitError`` (fatal).
        """

    def report(self) -> None:
        """Log the damage that ``badRecords`` left out, after the read."""

    def restart(self, offset: int | None = None) -> None:
        """Request the missing bytes again, after the connection was lost.

        With ``offset``, continue there and discard the bytes that are not decoded.
        """


def _of_07(range: OffsetRange, options: FetchOptions, wanted: Container[str]) -> PartitionReader:
    from .v07.v07_reader import V07Reader

    return V07Reader(range, options, wanted)


def _of_the_proposal(range: OffsetRange, options: FetchOptions, wanted: Container[str]) -> PartitionReader:
    from .v07.proposal_reader import ProposalReader

    return ProposalReader(range, options, wanted)


def _of_modern(range: OffsetRange, options: FetchOptions, wanted: Container[str]) -> PartitionReader:
    from .modern.record_batch_reader import RecordBatchReader

    return RecordBatchReader(range, options, wanted)


READERS: Final[
    Mapping[WireFormat, Callable[[OffsetRange, FetchOptions, Container[str]], PartitionReader]]
] = MappingProxyType(
    {WireFormat.V07: _of_07, WireFormat.PROPOSAL: _of_the_proposal, WireFormat.MODERN: _of_modern}
)
