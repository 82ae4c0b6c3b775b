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

Foreign text goes into a message through one of three functions: ``printable`` (a name or a value), ``quote``
(the same, in quotation marks) and ``peer_text`` (a peer's own words). As a last check, errors and the log of
this package turn every message into one printable line of bounded length.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from .secrecy import beginning_without_secrets, hide_long_secrets, without_secrets

if TYPE_CHECKING:
    from typing_extensions import Self


T = TypeVar("T")

#: Characters of one foreign text (a host, a topic, a peer's message, an option's value) that are shown.
TEXT_SIZE_MAX: Final = 200
#: Most characters of a message, and of its end, which says what to do.
MESSAGE_SIZE_MAX: Final = 4000
_END_SIZE: Final = 1000
#: Characters (or bytes) of a foreign text that are searched for secrets.
PROSE_SIZE_MAX: Final = 10_000
#: Names that ``close_matches`` compares, and their characters: at worst some 0.2 s.
_COMPARED_COUNT_MAX: Final = 500
_COMPARED_SIZE_MAX: Final = 64


def printable(text: object) -> str:
    """A foreign text as part of one line: unprintable characters are escaped, and a long text is cut to
    ``TEXT_SIZE_MAX`` characters.

    Printable text stays as it is, whatever its script. ``bytes`` are taken for UTF-8. Secrets are hidden
    before the text is cut, so that no part of a secret is left.
    """
    if isinstance(text, bytes | bytearray | memoryview):
        size, unit = len(text), "bytes"
        text = bytes(text[:PROSE_SIZE_MAX]).decode("utf-8", "backslashreplace")
    else:
        text = str(text)
        size, unit = len(text), "characters"
    is_whole = size <= PROSE_SIZE_MAX
    plain = without_secrets(text) if is_whole else beginning_without_secrets(text[:PROSE_SIZE_MAX])
    line = _printable(plain[: TEXT_SIZE_MAX + 1])
    return line if is_whole and len(line) <= TEXT_SIZE_MAX else f"{line[:TEXT_SIZE_MAX]}… ({size} {unit})"


def quote(text: object) -> str:
    """A foreign text as ``printable``, in quotation marks, because it may be empty or end in a blank."""
    return f"'{printable(text)}'"


def plural(count: int, one: str, many: str | None = None) -> str:
    """The form of a word that goes with a count; ``many`` is ``one`` and an s unless it is given."""
    return one if count == 1 else many or f"{one}s"


def counted(count: int, one: str, many: str | None = None) -> str:
    """``1 partition``, ``2 partitions``"""
    return f"{count} {plural(count, one, many)}"


def list_some(names: Collection[T], count_max: int, show: Callable[[T], str] = str) -> str:
    """``a, b and 3 more``: the first ``count_max`` names as ``show`` prints them, and the count of others."""
    more = len(names) - count_max
    return ", ".join(map(show, islice(names, count_max))) + (f" and {more} more" if more > 0 else "")


def peer_text(prose: str | bytes) -> str:
    """Quote a peer's own words, without secrets of ours. Do not use it during a login: there no words of a
    peer are shown."""
    return quote(prose)


def one_line(message: str) -> str:
    """A whole message as one printable line of at most ``MESSAGE_SIZE_MAX`` characters, its beginning and
    its end. Other lines are unchanged."""
    message = hide_long_secrets(message)
    if len(message) <= MESSAGE_SIZE_MAX and message.isprintable():
        return message
    line = _printable(message[:MESSAGE_SIZE_MAX])
    if len(message) <= MESSAGE_SIZE_MAX and len(line) <= MESSAGE_SIZE_MAX:
        return line
    left_out = f"… ({len(message)} characters) …"
    end = _printable(message[-_END_SIZE:])[-_END_SIZE:]
    return line[: MESSAGE_SIZE_MAX - len(left_out) - len(end)] + left_out + end


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(map(_escape, text))


def _escape(sign: str) -> str:
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")


def close_matches(name: str, known: Iterable[str], count: int = 3, likeness: float = 0.6) -> list[str]:
    """Known names that resemble an unknown one, the best match first.

    The time of a comparison grows at least with the square of the names' length: long names have no match,
    and of many known names only the first ones are compared.
    """
    if len(name) > _COMPARED_SIZE_MAX:
        return []
    compared = list(islice((item for item in known if len(item) <= _COMPARED_SIZE_MAX), _COMPARED_COUNT_MAX))
    import difflib  # where something is wrong alone

    return difflib.get_close_matches(name, compared, count, likeness)


def _make_one_line(record: logging.LogRecord) -> bool:
    record.msg, record.args = one_line(record.getMessage()), None
    return True


def log_of(name: str) -> logging.Logger:
    """The logger of that name, whose messages are one line each for every handler."""
    log = logging.getLogger(name)
    log.addFilter(_make_one_line)  # the same filter is never added twice
    return log


#: The logger of the package's messages to its users.
LOG: Final = log_of("spark_kafkawire")


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

    def locate(self, place: str) -> Self:
        """A copy of this error whose message starts with ``place``."""
        return self._retold(f"{place}: {self}")

    def advise(self, advice: str) -> Self:
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


class ErrorTable(enum.IntEnum):
    """An error code with the client's next action, the meaning, and the remedy for its reader.

    A subclass lists the codes of one generation as ``NAME = code, action, meaning, remedy``.
    """

    action: Action
    meaning: str
    remedy: str

    def __new__(
        cls, code: int, action: Action = Action.FAIL, meaning: str = "", remedy: str = ""
    ) -> ErrorTable:
        member = int.__new__(cls, code)
        member._value_ = code
        member.action, member.meaning, member.remedy = action, meaning, remedy
        return member

    @classmethod
    def error(cls, code: int, place: str, detail: str | None = None) -> BrokerError:
        """The error for a code at ``place`` (request, topic-partition, broker).

        ``detail`` is the broker's own text about it, where the response has such a field.
        """
        assert code != 0, "0 is no error"
        says = f", it says {peer_text(detail)}" if detail else ""
        try:
            known = cls(code)
        except ValueError:
            return BrokerError(
                f"{place}: the broker answered with the unknown error code {code}{says}; see its log", code
            )
        message = f"{place}: {known.meaning}{says} (error {code} {known.name}); {known.remedy}"
        return BrokerError(message, code, known.action)


#: Most topics in one error message, which is one line.
NAMES_COUNT_MAX: Final = 10


def unknown_topics(missing: Sequence[str], known: Sequence[str]) -> UnknownTopicError:
    """The error for unknown topics, which suggests similar names."""
    meant = meant_topics(missing, known) or "; create it, or correct its name"
    return UnknownTopicError(f"no broker holds the topic {names_of(missing)}{meant}")


def meant_topics(missing: Sequence[str], known: Iterable[str]) -> str:
    """A suggestion of known topics with similar names, as the end of an error; empty if none is similar."""
    known = tuple(known)
    close = [name for topic in missing[:NAMES_COUNT_MAX] for name in close_matches(topic, known)]
    *others, last = list(dict.fromkeys(close))[:NAMES_COUNT_MAX] or [""]
    named = f"{', '.join(map(printable, others))} or {printable(last)}" if others else printable(last)
    return f"; did you mean {named}?" if last else ""


def names_of(names: Sequence[str]) -> str:
    """Topic names as an error lists them."""
    return list_some(names, NAMES_COUNT_MAX, printable)
