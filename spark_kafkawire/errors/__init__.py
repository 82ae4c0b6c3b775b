"""Errors of the package, and the next step for the caller of each.

==========================  ===========  ==========================================================
class                       action       raised when
==========================  ===========  ==========================================================
KafkaWireError              FAIL         (base of all; never raised itself)
  OptionError               FIX_OPTION   an option, a schema or an argument is wrong or missing
  RowError                  FIX_DATA     a row cannot be written (null value, oversize, …)
  LimitError                FIX_OPTION   a named limit (message, frame, decompressed bytes) is hit
  DiscoveryError            FAIL         brokers or topics cannot be found in ZooKeeper or by the list
  UnknownTopicError         FIX_OPTION   discovery works and no broker holds the topic
    BrokersMissingError     BACK_OFF     expected brokers are not registered (yet)
  TransportError            RECONNECT    a connection could not be made, broke, or went silent
    ConnectFailed           RECONNECT    … before anything was sent
    ConnectionLost          RECONNECT    … the peer closed, or the network broke
    RequestTimedOut         RECONNECT    … a deadline passed
  AuthenticationError       FIX_OPTION   certificates or credentials are refused, by us or by the broker
  ProtocolError             FAIL         the peer's bytes are not the protocol; the connection is dead
  UnsupportedVersionError   FAIL         broker and client have no version of the request in common
  BrokerError               by code      the broker answered with an error code
  CorruptDataError          FAIL         record bytes fail a check (CRC, magic, length, compression, format)
  DataLossError             DATA_LOSS    requested offsets no longer exist
  DeliveryError             FAIL         written rows are not proven to be in the log
  RegistryError             FAIL         the schema registry refuses a request
    UnknownSchemaError      FAIL         the schema registry has no such schema, subject or version
==========================  ===========  ==========================================================

A message is one line that names what happened, where, and what to do. Spark drops the cause of
``raise X from e``, so the cause is part of the message. No message holds a secret or a payload.

Foreign text goes into a message through one of three functions: ``printable`` (a name or a value), ``quoted``
(the same, in quotation marks) and ``peer_text`` (a peer's own words). As a last check, errors and the log of
this package turn every message into one printable line of bounded length.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from .log import LOG, log_of
from .text import (
    MESSAGE_SIZE_MAX,
    TEXT_SIZE_MAX,
    close_matches,
    counted,
    listed_some,
    one_line,
    peer_text,
    plural,
    printable,
    quoted,
)

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "LOG",
    "MESSAGE_SIZE_MAX",
    "TEXT_SIZE_MAX",
    "Action",
    "AuthenticationError",
    "BrokerError",
    "BrokersMissingError",
    "ConnectFailed",
    "ConnectionLost",
    "CorruptDataError",
    "DataLossError",
    "DeliveryError",
    "DiscoveryError",
    "KafkaWireError",
    "LimitError",
    "OptionError",
    "ProtocolError",
    "RegistryError",
    "RequestTimedOut",
    "RowError",
    "TransportError",
    "UnknownSchemaError",
    "UnknownTopicError",
    "UnsupportedVersionError",
    "close_matches",
    "counted",
    "listed_some",
    "log_of",
    "one_line",
    "peer_text",
    "plural",
    "printable",
    "quoted",
]


class Action(enum.Enum):
    """Next step for the code (or the person) that meets an error."""

    FIX_OPTION = "change an option, a schema or an argument"
    FIX_DATA = "change the rows"
    RETRY = "send the same request again"
    BACK_OFF = "wait, then send the same request again"
    REFRESH = "refresh the metadata, then send the request again"
    RECONNECT = "open a new connection, then send the request again"
    DATA_LOSS = "continue with the remaining records, or fail: failOnDataLoss decides"
    FAIL = "give up"


class KafkaWireError(Exception):
    """Base of every error of this package. Picklable: its arguments are the message alone."""

    action: Action = Action.FAIL
    #: True once retries have given up with this error; callers of a retry need not count tries of their own.
    exhausted: bool = False

    def __init__(self, message: str = "") -> None:
        # The last check: a message is one line, whatever it is made of.
        super().__init__(one_line(message))

    def located(self, place: str) -> Self:
        """A copy of this error whose message starts with ``place``."""
        return self._retold(f"{place}: {self}")

    def advised(self, advice: str) -> Self:
        """A copy of this error whose message ends with ``advice`` for its reader."""
        return self._retold(f"{self}; {advice}")

    def _retold(self, message: str) -> Self:
        copy = type(self)(message)
        copy.__dict__.update(self.__dict__)
        return copy

    @property
    def retriable(self) -> bool:
        """True if the same request may succeed when it is sent again."""
        return self.action in (Action.RETRY, Action.BACK_OFF, Action.REFRESH, Action.RECONNECT)


class OptionError(KafkaWireError, ValueError):
    """An option, a schema or an argument is wrong, missing, or contradicts another. Fatal."""

    action = Action.FIX_OPTION


class RowError(KafkaWireError, ValueError):
    """A row that cannot be written. Fatal; no part of its request was sent."""

    action = Action.FIX_DATA


class LimitError(KafkaWireError):
    """A named limit was reached; the message holds both numbers and the option. Fatal."""

    action = Action.FIX_OPTION


class DiscoveryError(KafkaWireError):
    """The cluster's brokers or topics cannot be learned. Fatal after kazoo's own retries."""


class UnknownTopicError(DiscoveryError):
    """The topic does not exist on any broker. Fatal."""

    action = Action.FIX_OPTION


class BrokersMissingError(DiscoveryError):
    """Expected brokers are not registered: they restart, lost their session, or are gone. Retriable."""

    action = Action.BACK_OFF


class TransportError(KafkaWireError):
    """A connection failed. Retriable on a new connection where the request may be repeated."""

    action = Action.RECONNECT


class ConnectFailed(TransportError):
    """A connection could not be made; nothing was sent."""


class ConnectionLost(TransportError):
    """The peer closed the connection, or the network broke it."""


class RequestTimedOut(TransportError):
    """A deadline passed while bytes were awaited."""


class AuthenticationError(KafkaWireError):
    """Certificates or credentials are refused: the broker's by us, or ours by the broker. Fatal:
    trying again locks accounts."""

    action = Action.FIX_OPTION


class ProtocolError(KafkaWireError):
    """The peer's bytes are not the protocol. The connection must not be used again. Fatal."""


class UnsupportedVersionError(KafkaWireError):
    """Broker and client have no common version of a request, or no version that can carry this request.
    Fatal; nothing was sent."""


class BrokerError(KafkaWireError):
    """The broker answered with an error code; ``action`` comes from the code table."""

    def __init__(self, message: str, code: int = -1, action: Action = Action.FAIL) -> None:
        super().__init__(message)
        self.code = code
        self.action = action


class CorruptDataError(KafkaWireError):
    """Record bytes fail a check, or a key or value cannot be decoded. Fatal.

    ``offset`` is the log offset of the outermost message that holds the damage, or None if the bytes do not
    come from a partition. ``reason`` is the failed check alone, and ``pos`` the byte of the buffer where the
    message begins, as far as they are known.
    """

    def __init__(
        self, message: str, offset: int | None = None, *, reason: str = "", pos: int | None = None
    ) -> None:
        super().__init__(message)
        self.offset = offset
        self.reason = reason
        self.pos = pos


class DataLossError(KafkaWireError):
    """Requested offsets no longer exist. Fatal unless ``failOnDataLoss`` is false."""

    action = Action.DATA_LOSS


class DeliveryError(KafkaWireError):
    """Rows that were sent are not proven to be in the log. Fatal. The sender's message says whether sending
    them again may write duplicates."""


class RegistryError(KafkaWireError):
    """The schema registry refuses a request: an incompatible schema, an invalid one. Fatal."""


class UnknownSchemaError(RegistryError):
    """The schema registry has no such schema, subject or version, by its own error code. Fatal; a message
    with the id of such a schema is a bad record."""
