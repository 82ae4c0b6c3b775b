"""What planning tells a task to read. Plain data: planning imports nothing of how it is read."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import CorruptDataError
from ...model import Leader, OffsetRange
from ...protocol.modern.floor import NO_FLOOR, VersionFloor
from .log_epochs import LogEpochs


@dataclass(frozen=True, slots=True)
class FetchTask:
    """One range to read, and who served it when the read was planned.

    ``start_option`` and ``stop_option`` name the option that gave an end of the range as a number; None
    where the end comes from the broker, so that it is a message boundary. ``floor`` is what the brokers
    offered then: one that offers less is not read from. ``epochs`` are those of the log, where they are asked
    for.
    """

    range: OffsetRange
    leader: Leader
    start_option: str | None = None
    stop_option: str | None = None
    floor: VersionFloor = NO_FLOOR
    epochs: LogEpochs | None = None


class MessageCrossesStop(CorruptDataError):
    """The range ends inside a message: its end is no message boundary. Fatal."""
