"""The error codes of the New Wire Format Proposal of Kafka 0.7, with the meaning and the remedy of each.

The document gives no numbers. Errors of 0.7 keep their numbers; errors that only the proposal has use the
numbers of later Kafka. "No error" is 0 for a whole request, as in all responses of 0.7, and -1 in the list of
a ProduceResponse, as the document says; that list may hold 0, too. So -1 is the unknown error of 0.7 only
when it is the error of a whole request.

Source: 0.7.2 common/ErrorMapping.scala, Apache Kafka's Errors.java.
"""

from __future__ import annotations

from typing import Final

from spark_kafkawire.errors import Action, BrokerError

from ..error_table import ErrorTable

#: "No error" in the list of a ProduceResponse: the set was appended.
NO_ERROR_OF_SET: Final = -1


class ErrorCode(ErrorTable):
    """The error codes, in the order of their numbers."""

    # fmt: off
    UNKNOWN = (-1, Action.FAIL, "the broker failed with an unknown error", "see the broker's log")
    NONE = 0
    OFFSET_OUT_OF_RANGE = (1, Action.DATA_LOSS, "the offset is no longer in the log",
        "read what is there with failOnDataLoss=false, or choose other startingOffsets")
    INVALID_MESSAGE = (2, Action.FAIL, "the broker found a damaged message",
        "see the broker's log, and check its disk and the network")
    WRONG_PARTITION = (3, Action.REFRESH, "the broker has no such partition",
        "use partitions below the broker's num.partitions, or raise that setting")
    INVALID_FETCH_SIZE = (4, Action.FAIL, "the broker refuses the size of the fetch",
        "fetches of the proposal have no size: see the broker's log")
    REPLICA_NOT_AVAILABLE = (9, Action.FAIL, "the broker has no replicas",
        "fetch as a consumer, with replica_id -1")
    MESSAGE_TOO_LARGE = (10, Action.FIX_OPTION, "a message is larger than the broker's max.message.size",
        "set the option max.message.size to the brokers' value, or raise that setting of the brokers")
    INVALID_TOPIC = (17, Action.FIX_OPTION, "the broker refuses the topic name",
        "use 1 to 255 characters, without a slash or control characters")
    INVALID_REQUIRED_ACKS = (21, Action.FIX_OPTION, "the broker has fewer replicas than acks requires",
        "set acks to 0 or 1")
    STORAGE = (56, Action.FAIL, "the broker could not write to its disk", "see the broker's log")
    # fmt: on


def broker_error(code: int, place: str) -> BrokerError:
    """The error for a broker's error code at ``place`` (topic-partition, offset, broker)."""
    return ErrorCode.error(code, place)


def is_appended(code: int) -> bool:
    """True if a code in a ProduceResponse's list means that the set was appended."""
    return code in (NO_ERROR_OF_SET, ErrorCode.NONE)
