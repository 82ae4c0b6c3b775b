"""The error codes of Kafka 0.7 brokers, with the meaning and the remedy of each.

Only -1, 0, 1 and 3 were ever seen on the wire, in responses to FETCH and MULTIFETCH. A broker refuses all
other requests by closing the connection.

Source: 0.7.2 common/ErrorMapping.scala.
"""

from __future__ import annotations

from spark_kafkawire.errors import Action, BrokerError

from ..error_table import ErrorTable


class ErrorCode(ErrorTable):
    """The error codes, in the order of their numbers."""

    # fmt: off
    UNKNOWN = (-1, Action.FIX_OPTION, "the broker refuses the topic name",
        "use 1 to 255 characters, without a slash or control characters")
    NONE = 0
    OFFSET_OUT_OF_RANGE = (1, Action.DATA_LOSS, "the offset is no longer in the log",
        "read what is there with failOnDataLoss=false, or choose other startingOffsets")
    INVALID_MESSAGE = (2, Action.FAIL, "the broker found a damaged message",
        "see the broker's log, and check its disk")
    WRONG_PARTITION = (3, Action.REFRESH, "the broker has no such partition",
        "use partitions below the broker's num.partitions, or raise that setting")
    INVALID_FETCH_SIZE = (4, Action.FIX_OPTION, "the broker refuses the fetch size",
        "set fetchBytes to another size")
    # fmt: on


def broker_error(code: int, place: str) -> BrokerError:
    """The error for a broker's error code at ``place`` (topic-partition, offset, broker)."""
    return ErrorCode.error(code, place)
