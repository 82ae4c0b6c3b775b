"""Reads one range of one log: windows in flight, stitched, decoded, retried.

    for columns in Fetcher(task, options, net).columns():
        ...

A connection that fails is replaced and the read goes on at the first byte that has not come, so
nothing is read twice. Where the log has lost bytes of the range, ``failOnDataLoss`` decides.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from ..cluster.offsets import bounds
from ..errors import (
    Action,
    BrokerError,
    CorruptDataError,
    DataLossError,
    ErrorCode,
    KafkaWireError,
    LimitError,
    OptionError,
    broker_error,
)
from ..model import Leader, OffsetRange
from ..net.client import Client
from ..net.pool import POOL, Pool
from ..net.retry import Attempts
from ..options import FetchOptions, NetOptions
from ..protocol.connection import Reply
from ..protocol.v07 import FetchRequest
from ..records.columns import Columns
from ..records.message_set import DecodeLimits
from .stitcher import MessageCrossesStop, Stitcher
from .windows import Windows

_log = logging.getLogger("spark_kafkawire")


@dataclass(frozen=True, slots=True)
class FetchTask:
    """One range to read, and who served it when the read was planned.

    ``starting`` and ``ending`` name the option that gave an end of the range as a number; None
    where the end comes from the broker and so is a message boundary for certain.
    """

    range: OffsetRange
    leader: Leader
    starting: str | None = None
    ending: str | None = None


class Fetcher:
    """One read of one range; ``bytes_received`` counts record bytes that came over the network.

    The connection is one of ``connections``, and goes back to them after a read without failure.
    """

    def __init__(
        self,
        task: FetchTask,
        options: FetchOptions,
        net: NetOptions,
        *,
        values: bool = True,
        connections: Pool = POOL,
    ) -> None:
        self._task = task
        self._options = options
        self._net = net
        self._connections = connections
        self._attempts = Attempts(net.retry)
        self._client: Client | None = None
        self._values = values
        self._windows: Windows[Reply] = Windows(
            task.range.start_offset, task.range.stop_offset, options.fetch_bytes, options.fetches_in_flight
        )
        self._stitcher = self._stitcher_from(task.range.start_offset)
        self.bytes_received = 0

    def columns(self) -> Iterator[Columns]:
        """All messages of the range, in order.

        Raises ``CorruptDataError``, ``LimitError``, ``DataLossError``, ``BrokerError`` (fatal) or
        the last ``TransportError`` once the retries are used up.
        """
        try:
            while not self._windows.done:
                reply = self._next_reply()
                if reply is not None:
                    start = len(reply.frame) - len(reply.body.message_set)
                    yield from self._stitcher.feed(reply.frame, start)
                    del reply  # its frame is received into again
            self._stitcher.finish()
            self._give_back()
        except (CorruptDataError, LimitError) as error:
            raise self._explained(error) from error
        finally:
            self._disconnect()

    def _next_reply(self) -> Reply | None:
        """The next bytes of the log; None where there are none yet or a loss was stepped over."""
        reply = self._windows.take()
        if reply is None:
            self._exchange()
            return None
        error_code = reply.body.error_code
        if error_code == ErrorCode.NONE and len(reply.body.message_set):
            self._attempts.progressed()
            return reply
        if error_code in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
            self._step_over_loss()
            return None
        raise broker_error(error_code, f"{self._place(self._windows.next_offset)}, FETCH")

    def _exchange(self) -> None:
        """Send all windows that may be asked for and take one reply."""
        log = self._task.range.log
        try:
            client = self._connected()
            while (window := self._windows.ask()) is not None:
                client.send(FetchRequest(log.topic, log.partition, window.offset, window.size))
            reply = client.receive()
        except KafkaWireError as error:
            self._disconnect()
            self._windows.restart()
            self._attempts.failed(error.located(f"{log} at offset {self._windows.next_offset}"))
            return
        size = len(reply.body.message_set)
        self.bytes_received += size
        self._windows.answer(reply.request.offset, reply, size)

    def _step_over_loss(self) -> None:
        """The broker has no byte at the next offset: fail, or go on where the log goes on."""
        log, lost_offset, stop_offset = (
            self._task.range.log,
            self._windows.next_offset,
            self._task.range.stop_offset,
        )
        self._disconnect()
        found = bounds(self._task.leader.broker, (log,), self._net)[log]
        if found.earliest <= lost_offset < found.latest:
            self._windows.restart(lost_offset)
            self._attempts.failed(_gone_and_back(self._place(lost_offset)))
            return
        resume_offset = min(found.earliest, stop_offset) if found.earliest > lost_offset else stop_offset
        loss = (
            f"{self._place(self._stitcher.offset)}: bytes up to {resume_offset} are gone; "
            f"the log now holds [{found.earliest}, {found.latest})"
        )
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{loss}; to read what is left, set failOnDataLoss=false")
        _log.warning("%s; reading on because failOnDataLoss=false", loss)
        self._windows.restart(resume_offset)
        self._stitcher = self._stitcher_from(resume_offset)

    def _stitcher_from(self, start_offset: int) -> Stitcher:
        limits = DecodeLimits(decompressed_bytes_max=self._options.decompressed_bytes_max)
        rest = OffsetRange(self._task.range.log, start_offset, self._task.range.stop_offset)
        return Stitcher(rest, self._options.message_bytes_max, limits, values=self._values)

    def _connected(self) -> Client:
        if self._client is None:
            self._client = self._connections.take(self._task.leader.broker, self._net.connection)
        return self._client

    def _give_back(self) -> None:
        if self._client is not None:
            self._connections.give_back(self._client)
            self._client = None

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _place(self, offset: int) -> str:
        return f"{self._task.range.log} at offset {offset} on {self._task.leader.broker}"

    def _explained(self, error: CorruptDataError | LimitError) -> KafkaWireError:
        """Damage at a place that an option named is most likely no message boundary."""
        task, log_range = self._task, self._task.range
        at_start = self._stitcher.offset == log_range.start_offset
        for option, offset, suspect in (
            (task.starting, log_range.start_offset, at_start),
            (task.ending, log_range.stop_offset, isinstance(error, MessageCrossesStop)),
        ):
            if option is not None and suspect:
                place = f"{log_range.log} on {task.leader.broker}"
                return OptionError(f"option {option}: {offset} is not a message boundary of {place}: {error}")
        return error.located(f"{log_range.log} on {task.leader.broker}")


def _gone_and_back(place: str) -> BrokerError:
    """A broker that restarts may serve less than it has, for a moment."""
    return BrokerError(f"{place}: FETCH found nothing where OFFSETS says there is data", action=Action.RETRY)
