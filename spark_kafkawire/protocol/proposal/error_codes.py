"""The error codes of the proposal: what each one means, and what to do about it.

The document names no number. Those of 0.7 keep theirs; what only the proposal can tell has the number under
which Kafka told it later. No error is 0 for a request as a whole, as in all replies of 0.7, and -1 in the
list of a ProduceResponse, as written there; 0 is understood there, too. So -1 is the unknown error of 0.7
only where it is about a request as a whole.

Source: 0.7.2 common/ErrorMapping.scala, Apache Kafka's Errors.java.
"""

from __future__ import annotations

from typing import Final

from ...errors import Action, BrokerError
from ..error_table import ErrorTable

#: In the list of a ProduceResponse: the set was appended.
NO_ERROR_OF_SET: Final = -1


class ErrorCode(ErrorTable):
    """The error codes, in the order of their numbers."""

    # fmt: off
    UNKNOWN = (-1, Action.FAIL, "the broker cannot tell what went wrong", "see the broker's log")
    NONE = 0
    OFFSET_OUT_OF_RANGE = (1, Action.DATA_LOSS, "the offset is not in the log any more",
        "read what is there with failOnDataLoss=false, or choose other startingOffsets")
    INVALID_MESSAGE = (2, Action.FAIL, "the broker found a damaged message",
        "see the broker's log, and have its disk, and the network, looked at")
    WRONG_PARTITION = (3, Action.REFRESH, "the broker has no such partition",
        "ask for partitions below its num.partitions, or raise that")
    INVALID_FETCH_SIZE = (4, Action.FAIL, "the broker refuses the size of the fetch",
        "the proposal's fetches have none: see the broker's log")
    REPLICA_NOT_AVAILABLE = (9, Action.FAIL, "the broker has no replicas",
        "fetch as no replica, with replica_id -1")
    MESSAGE_TOO_LARGE = (10, Action.FIX_OPTION, "a message is larger than the broker's max.message.size",
        "set the option max.message.size to what the brokers have, or raise it there")
    INVALID_TOPIC = (17, Action.FIX_OPTION, "the broker refuses the topic name",
        "use 1 to 255 characters, without a slash or control characters")
    INVALID_REQUIRED_ACKS = (21, Action.FIX_OPTION, "the broker has not so many replicas to wait for",
        "set acks to 0 or 1")
    STORAGE = (56, Action.FAIL, "the broker could not write to its disk", "see the broker's log")
    # fmt: on


def broker_error(code: int, place: str) -> BrokerError:
    """The error for a broker's error code at ``place`` (topic-partition, offset, broker)."""
    return ErrorCode.error(code, place)


def is_appended(code: int) -> bool:
    """Whether a code of a ProduceResponse's list says that there was no error."""
    return code in (NO_ERROR_OF_SET, ErrorCode.NONE)
