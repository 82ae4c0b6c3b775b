"""Fetch loop of a read task with a pack: small ranges of many partitions that one broker leads.

    for task, columns in Pack(tasks, cluster, options, net).columns():
        ...

One request asks for all ranges of a leader. Each part of its response is checked as in a read of one range
(``fetcher``). A range whose part fails is read alone from there on, after its neighbours. If the leader of
some ranges has moved, they are requested from the new one, together.

Ranges take turns (KIP-74): a response has room for the first range of its request at least, so ranges that a
response had no room for come first in the next request. Each exchange completes a range, brings records, or
sends a range away to be read alone, so that the loop ends.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Protocol

from spark_kafkawire.cluster import Cluster
from spark_kafkawire.errors import Action, BrokerError, KafkaWireError, UnknownTopicError, counted
from spark_kafkawire.model import Broker, WireFormat
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import POOL, Pool
from spark_kafkawire.net.retry import Attempts
from spark_kafkawire.options import FetchOptions, NetOptions
from spark_kafkawire.protocol.connection import Response
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.record_log import COLUMNS

from .fetcher import Fetcher, settings_of
from .task import EmptyFetch, FetchTask

#: Most ranges in one request.
RANGES_COUNT_MAX: Final = 1000


class Pack:
    """Read of several ranges. Connections come from ``connections`` and return there without a failure."""

    def __init__(
        self,
        tasks: Sequence[FetchTask],
        cluster: Cluster,
        options: FetchOptions,
        net: NetOptions,
        *,
        wanted: Container[str] = COLUMNS,
        connections: Pool = POOL,
    ) -> None:
        self._waiting = deque(
            Fetcher(task, cluster, options, net, wanted=wanted, connections=connections) for task in tasks
        )
        self._cluster = cluster
        self._connections = connections
        self._settings = settings_of(tasks[0], options, net)
        self._packing = PACKINGS[self._settings.spoken](options)
        self._attempts = Attempts(replace(net.retry, retry_timeout_s=options.retry_timeout_s))
        self._client: Client | None = None
        #: Ranges whose leader has moved once.
        self._moved: set[Fetcher] = set()
        #: Ranges to read alone, and the failure of each.
        self._alone: list[tuple[Fetcher, KafkaWireError]] = []

    def columns(self) -> Iterator[tuple[FetchTask, Columns]]:
        """All records of the ranges, those of each in order. Raises the errors of ``Fetcher.columns``. An
        exchange that fails as a whole is repeated as that of a single range."""
        try:
            while self._waiting:
                yield from self._round()
            self._give_back()
        finally:
            if self._client is not None:
                self._client.close()
        for fetcher, error in self._alone:
            for columns in fetcher.columns(error):
                yield fetcher.task, columns

    def _round(self) -> Iterator[tuple[FetchTask, Columns]]:
        """One exchange, and the records that it brings."""
        group: dict[Fetcher, list[Response | None]] = {}
        try:
            self._find_leaders()
            requests = self._next_requests()
            if not requests:
                return
            group = {fetcher: [] for fetcher, _ in requests}
            parts = self._exchange(next(iter(group)).leader().broker, [request for _, request in requests])
        except KafkaWireError as error:
            self._put_back(group, error)
            return
        for (fetcher, _), part in zip(requests, parts, strict=True):
            group[fetcher].append(part)
        del parts  # a view of the frame, which is used again
        passed_over, moved = [], None
        for fetcher in list(group):
            responses = [part for part in group.pop(fetcher) if part is not None]
            if not responses:
                fetcher.put_back()
                passed_over.append(fetcher)
                continue
            try:
                for columns in fetcher.taken(responses):
                    yield fetcher.task, columns
                    del columns
            except KafkaWireError as error:
                moved = self._failed(fetcher, error) or moved
            else:
                self._attempts.note_progress()
                if fetcher.is_done:
                    fetcher.finish()
                else:
                    self._waiting.append(fetcher)
        self._waiting.extendleft(reversed(passed_over))
        if moved is not None:
            self._attempts.failed(moved)

    def _find_leaders(self) -> None:
        """Look up the leaders that are not known, all at once."""
        unknown = [fetcher for fetcher in self._waiting if not fetcher.is_led]
        if not unknown:
            return
        with contextlib.suppress(UnknownTopicError):  # the look-up of each range finds which topic that is
            self._cluster.leaders_of([fetcher.task.range.topic_partition for fetcher in unknown])
        for fetcher in unknown:
            try:
                fetcher.leader()
            except KafkaWireError as error:
                self._waiting.remove(fetcher)
                self._alone.append((fetcher, error))

    def _next_requests(self) -> list[tuple[Fetcher, Any]]:
        """Requests of the next ranges that have the same leader as the first one."""
        requests: list[tuple[Fetcher, Any]] = []
        others: list[Fetcher] = []
        size = 0
        while self._waiting and size < self._packing.bytes_max and len(requests) < RANGES_COUNT_MAX:
            fetcher = self._waiting.popleft()
            if requests and fetcher.leader().broker != requests[0][0].leader().broker:
                others.append(fetcher)
                continue
            due = fetcher.requests()
            assert due, "a range that is not done has a request"
            requests += [(fetcher, request) for request in due]
            size += sum(map(self._packing.bytes_of, due))
        self._waiting.extendleft(reversed(others))
        return requests

    def _exchange(self, broker: Broker, requests: Sequence[Any]) -> Sequence[Response | None]:
        if self._client is None or self._client.broker != broker:
            self._give_back()
            self._client = self._connections.take(broker, self._settings)
        self._client.send(self._packing.pack(requests))
        return self._packing.parts(self._client.receive(), requests)

    def _give_back(self) -> None:
        if self._client is not None:
            self._connections.give_back(self._client)
            self._client = None

    def _put_back(self, group: Mapping[Fetcher, object], error: KafkaWireError) -> None:
        """Wait until all ranges of a failed exchange can be requested again, or raise."""
        if self._client is not None and not isinstance(error, EmptyFetch):
            self._client.close()
            self._client = None
        for fetcher in group:
            fetcher.put_back(forget_leader=error.action in (Action.REFRESH, Action.RECONNECT))
        self._waiting.extendleft(reversed(list(group)))
        if group:
            ranges = [fetcher.task.range for fetcher in group]
            others = f" and {counted(len(ranges) - 1, 'other range')}" if len(ranges) > 1 else ""
            error = error.locate(f"{ranges[0]}{others}")
        self._attempts.failed(error)

    def _failed(self, fetcher: Fetcher, error: KafkaWireError) -> KafkaWireError | None:
        """Have a range read alone; the error itself if its leader has moved for the first time."""
        # Subclasses are about the records: they are no reason to ask another broker.
        if type(error) is BrokerError and error.action is Action.REFRESH and fetcher not in self._moved:
            self._moved.add(fetcher)
            fetcher.put_back(forget_leader=True)
            self._waiting.append(fetcher)
            return error.locate(f"{fetcher.task.range} on {fetcher.task.leader.broker}")
        # Its frames would keep the response in memory.
        self._alone.append((fetcher, error.with_traceback(None)))
        return None


class Packing(Protocol):
    """The requests of several ranges as one, and the parts of its response."""

    #: Bytes from which a request asks for no further range.
    bytes_max: int

    def bytes_of(self, request: Any) -> int:
        """The largest size of the records that the request of one range asks for."""

    def pack(self, requests: Sequence[Any]) -> object:
        """One request for all."""

    def parts(self, response: Response, requests: Sequence[Any]) -> Sequence[Response | None]:
        """The part of each request; None if the response had no room for it. Raises ``EmptyFetch`` if it had
        room for none."""


def _make_v07_packing(options: FetchOptions) -> Packing:
    from .v07 import MultiFetches

    return MultiFetches(options)


def _make_modern_packing(options: FetchOptions) -> Packing:
    from .modern.record_batch_reader import PackedFetches

    return PackedFetches(options)


#: The proposal of 2012 is missing: its fetches have no size, so that one response would be too large.
PACKINGS: Final[Mapping[WireFormat, Callable[[FetchOptions], Packing]]] = MappingProxyType(
    {WireFormat.V07: _make_v07_packing, WireFormat.MODERN: _make_modern_packing}
)
