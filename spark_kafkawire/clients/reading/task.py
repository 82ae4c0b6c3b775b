"""Range that planning gives to a task, its layouts for ``keyOrder``, and the errors and gaps of its
responses. Plain data, of all generations: planning imports no reader."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from spark_kafkawire.errors import Action, BrokerError, CorruptDataError, KafkaWireError
from spark_kafkawire.model import Broker, Leader, OffsetRange, TopicPartition
from spark_kafkawire.options import PartitionerCheck
from spark_kafkawire.protocol.modern.minimum_versions import NO_MINIMUM, MinimumVersions
from spark_kafkawire.records.arrays import Int64s

if TYPE_CHECKING:
    from spark_kafkawire.directories.files import LogSlice

#: What to do about a log that contradicts itself.
COMPARE_LOGS: Final = (
    "compare the output of kafka-dump-log.sh for this partition on its leader and on a follower, and let the "
    "undamaged one lead"
)

#: Followers that this process has read from since its last task.
FOLLOWED: Final[set[Broker]] = set()


@dataclass(frozen=True, slots=True)
class PartitionLayouts:
    """The layouts of one partition: ``first`` begins with the partition itself, each later one at its
    boundary.

    ``family`` is the partition whose Spark partition also reads this one, after those of earlier layouts.

    ``counts`` are the partition counts of the topic in all layouts. The read checks keys against them as
    ``check`` says. If ``is_late_a_fault``, a record that an earlier count placed here may come after its
    successors.
    """

    family: TopicPartition
    first: int
    boundaries: tuple[int, ...]
    counts: tuple[int, ...]
    check: PartitionerCheck = PartitionerCheck.NONE
    is_late_a_fault: bool = False


@dataclass(frozen=True, slots=True)
class FetchTask:
    """Range to read, and the leader that served it when the read was planned.

    ``start_option`` and ``stop_option`` name the option that gave an end of the range as a number. They are
    None where a broker gave the end, so that it is a message boundary. ``minimum_versions`` is what the
    brokers offered during planning: a broker that offers less is not read from. ``layouts`` are set where
    the user asks for them. ``files`` are the files of the range where no broker serves it.
    """

    range: OffsetRange
    leader: Leader
    start_option: str | None = None
    stop_option: str | None = None
    minimum_versions: MinimumVersions = NO_MINIMUM
    layouts: PartitionLayouts | None = None
    files: LogSlice | None = None

    # See ``Broker``.
    def __reduce__(self) -> tuple[type[FetchTask], tuple[object, ...]]:
        return FetchTask, _fields_of(self)

    def wrong_option(self, error: KafkaWireError, offset: int) -> str | None:
        """The fault of an option that gave an end of the range, by an error of the read at ``offset``: that
        end is likely no message boundary. None without such an option."""
        for option, end, is_suspect in (
            (self.start_option, self.range.start_offset, offset == self.range.start_offset),
            (self.stop_option, self.range.stop_offset, isinstance(error, MessageCrossesStop)),
        ):
            if option is not None and is_suspect:
                return f"option {option}: {end} is not a message boundary of {self.range.topic_partition}"
        return None


_fields_of: Final = attrgetter(*(field.name for field in fields(FetchTask)))


class MessageCrossesStop(CorruptDataError):
    """The end of the range is inside a message. Fatal."""


class UndecodablePart(CorruptDataError):
    """Bytes whose checksum is right and whose records cannot be decoded: the next walk calls them damaged."""


class Contradiction(BrokerError):
    """A response whose offsets contradict each other, or other responses of the leader. Retriable. ``offset``
    is that of the fetch."""

    def __init__(self, message: str, offset: int = -1) -> None:
        super().__init__(message, action=Action.REFRESH)
        self.offset = offset


class EmptyFetch(BrokerError):
    """A Fetch response without a new record although the range has more offsets. Retriable on the same
    connection, which knows its throttle time.

    With ``may_be_compacted``, several such responses in a row have reported that the log ends after the
    range: ``data_loss`` decides what that proves. With ``is_throttled`` a quota is used up."""

    def __init__(self, message: str, may_be_compacted: bool = False, is_throttled: bool = False) -> None:
        super().__init__(message, action=Action.BACK_OFF)
        self.may_be_compacted, self.is_throttled = may_be_compacted, is_throttled


class NearerReplica(BrokerError):
    """The leader names a follower that is nearer to the client. Retriable, at that follower."""

    def __init__(self, replica_id: int) -> None:
        message = f"the leader serves no records and names replica {replica_id} in its place"
        super().__init__(message, action=Action.RETRY)
        self.replica_id = replica_id


@dataclass(frozen=True, slots=True)
class Gaps:
    """Offsets of the range that the response to a fetch at ``offset`` omits.

    Each row of ``spans`` is ``(start, stop)``. The batches of the response end at ``next_offset``."""

    offset: int
    next_offset: int
    spans: Int64s
