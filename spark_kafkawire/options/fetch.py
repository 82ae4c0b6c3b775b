"""Options of the fetches of a read task, for both generations: sizes, waits, isolation, data loss, and bad
records: bytes that cannot become rows, and keys and values that cannot be decoded.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ..model import Generation, WireFormat
from ..protocol.modern.limits import READ_COMMITTED, READ_UNCOMMITTED
from .connection import NetOptions, parse_wire_format
from .option import MODERN, READ, V07, RawOptions, count, flag, mapped, option, seconds, size


class BadRecords(enum.Enum):
    """Treatment of bytes that cannot become rows: an error, a row with nulls, or no row."""

    FAIL = "fail"
    NULL = "null"
    DROP = "drop"


BAD_RECORDS: Final = option(
    "badRecords",
    mapped({each.value: each for each in BadRecords}),
    default="fail",
    sides=READ,
    meaning="bytes that cannot become rows, because the log is damaged or a key or value cannot be decoded, "
    "are an error; `null`: a row with nulls, and a column `_corrupt_record` with the bytes and the reason; "
    "`drop`: they are left out, counted, with a warning; see [Damaged records](data-loss.md#damaged-records)",
)
MAX_CORRUPT_BYTES: Final = option(
    "maxCorruptBytes",
    size(0),
    default="1MiB",
    sides=READ,
    meaning="the most bytes of damaged records that `_corrupt_record` has in one row; a key or value that "
    "cannot be decoded is there whole",
)


#: A smaller fetch would only take longer.
_FETCH_BYTES_MIN: Final = 1 << 10
#: Why the proposal does not go with the sizes of fetches.
_NO_SIZE: Final = "its fetches have no size, the broker gives what one answer holds"


def _kafka_fetch_bytes(name: str, given: str) -> int:
    """Java takes any size."""
    return max(size(0)(name, given), _FETCH_BYTES_MIN)


FAIL_ON_DATA_LOSS: Final = option(
    "failOnDataLoss",
    flag,
    default="true",
    sides=READ,
    meaning="`false`: if offsets are gone, log a warning and read what is left",
)
ISOLATION_LEVEL: Final = option(
    "kafka.isolation.level",
    mapped({"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}),
    default="read_uncommitted",
    sides=READ,
    generation=MODERN,
    meaning="`read_committed`: leave out the records of open and aborted transactions",
)
POLL_TIMEOUT: Final = option(
    "kafkaConsumer.pollTimeoutMs",
    seconds(),
    default="120000",
    sides=READ,
    generation=MODERN,
    meaning="the time that a task waits for records that are due, or for a leader, whatever `retries` is",
)
FETCH_BYTES: Final = option(
    "fetchBytes",
    size(_FETCH_BYTES_MIN),
    default="4MiB",
    sides=READ,
    meaning="the size of one fetch, which must arrive within `requestTimeout`; from 0.8 on `12MiB`",
)
# Of 0.7's fetches several are under way at once, of later ones a single one: it may be larger.
MODERN_FETCH_BYTES: Final = option(
    "kafka.max.partition.fetch.bytes",
    _kafka_fetch_bytes,
    default="12MiB",
    sides=READ,
    generation=MODERN,
    meaning="Kafka's name of `fetchBytes`",
)
MAX_WAIT: Final = option(
    "kafka.fetch.max.wait.ms",
    seconds(),
    default="500",
    sides=READ,
    generation=MODERN,
    meaning="the time that a broker waits for a record",
)
FETCHES_IN_FLIGHT: Final = option(
    "fetchesInFlight",
    count(1, 64),
    default="4",
    sides=READ,
    generation=V07,
    meaning="the number of fetches that wait for a response on one connection",
)
MAX_MESSAGE_BYTES: Final = option(
    "maxMessageBytes", size(1), default="64MiB", sides=READ, meaning="a larger message is an error"
)
MAX_DECOMPRESSED_BYTES: Final = option(
    "maxDecompressedBytes",
    size(1),
    default="256MiB",
    sides=READ,
    meaning="the largest size of one compressed message after decompression; each message in it counts as at "
    "least 128 bytes (256 in Kafka 0.8 to 0.10)",
)


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Settings with which an executor reads one range; all sizes in bytes.

    ``wire_format`` is None for the generation's own format.
    ``retry_timeout_s`` is the shortest time to retry failures in a row, whatever ``retries`` is.
    ``wait_ms`` is the time that a broker may wait for a record before it sends an empty response.
    ``bad_records`` decides about damage of the log, of which a row has ``corrupt_bytes_max`` bytes at most.
    """

    fetch_bytes: int = FETCH_BYTES.value
    fetches_in_flight: int = FETCHES_IN_FLIGHT.value
    message_bytes_max: int = MAX_MESSAGE_BYTES.value
    decompressed_bytes_max: int = MAX_DECOMPRESSED_BYTES.value
    fail_on_data_loss: bool = FAIL_ON_DATA_LOSS.value
    isolation_level: int = ISOLATION_LEVEL.value
    retry_timeout_s: float = 0.0
    wait_ms: int = round(1000 * MAX_WAIT.value)
    wire_format: WireFormat | None = None
    bad_records: BadRecords = BAD_RECORDS.value
    corrupt_bytes_max: int = MAX_CORRUPT_BYTES.value


def parse_fetch(options: RawOptions, net: NetOptions) -> FetchOptions:
    """Read the options of fetches. Raises ``OptionError`` (fatal)."""
    fetch_bytes, retry_timeout_s = _BY_GENERATION[net.connection.generation](options, net)
    return FetchOptions(
        fetch_bytes=fetch_bytes,
        fetches_in_flight=options[FETCHES_IN_FLIGHT],
        message_bytes_max=options[MAX_MESSAGE_BYTES],
        decompressed_bytes_max=options[MAX_DECOMPRESSED_BYTES],
        fail_on_data_loss=options[FAIL_ON_DATA_LOSS],
        isolation_level=options[ISOLATION_LEVEL],
        retry_timeout_s=retry_timeout_s,
        # A broker that waited for longer would seem not to respond.
        wait_ms=int(1000 * min(options[MAX_WAIT], net.request_timeout_s / 2)),
        wire_format=parse_wire_format(options, dict.fromkeys((FETCH_BYTES, FETCHES_IN_FLIGHT), _NO_SIZE)),
        bad_records=options[BAD_RECORDS],
        corrupt_bytes_max=options[MAX_CORRUPT_BYTES],
    )


def _parse_07(options: RawOptions, net: NetOptions) -> tuple[int, float]:
    return options[FETCH_BYTES], net.retry.retry_timeout_s


def _parse_modern(options: RawOptions, _: NetOptions) -> tuple[int, float]:
    return options.one_of(MODERN_FETCH_BYTES, FETCH_BYTES), options[POLL_TIMEOUT]


#: The size of one fetch, and brokerDownTimeout with it, seconds.
_BY_GENERATION: Final[Mapping[Generation, Callable[[RawOptions, NetOptions], tuple[int, float]]]] = (
    MappingProxyType({V07: _parse_07, MODERN: _parse_modern})
)
