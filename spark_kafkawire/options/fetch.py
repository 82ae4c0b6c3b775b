"""Options of the fetches of a read task, for both generations: sizes, waits, isolation, data loss, and bad
records: bytes that cannot become rows, and keys and values that cannot be decoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..model import WireFormat
from ..net.client_rack import ClientRack
from ..protocol.modern.limits import READ_COMMITTED, READ_UNCOMMITTED
from .connection import NetOptions, parse_wire_format
from .option import (
    MODERN,
    READ,
    V07,
    Group,
    Option,
    RawOptions,
    count,
    flag,
    map_words,
    milliseconds,
    option,
    seconds,
    size,
)
from .typed import BadRecords, TypedOptions

#: A smaller fetch would only take longer.
_FETCH_BYTES_MIN: Final = 1 << 10
#: Why the proposal does not go with the sizes of fetches.
_NO_SIZE: Final = "its fetches have no size, the broker gives what one answer holds"


def _kafka_fetch_bytes(name: str, given: str) -> int:
    """Java takes any size."""
    return max(size(0)(name, given), _FETCH_BYTES_MIN)


@dataclass(frozen=True)
class FetchOptions(Group, sides=READ):
    """Settings with which an executor reads one range; all sizes in bytes.

    ``wire_format`` is None for the generation's own format.
    ``retry_timeout_s`` is the shortest time to retry failures in a row, whatever ``retries`` is.
    ``wait_ms`` is the time that a broker may wait for a record before it sends an empty response.
    ``bad_records`` decides about damage of the log, of which a row has ``corrupt_bytes_max`` bytes at most.
    With a ``rack`` the leader may name a replica that is nearer.
    """

    bad_records: Option[BadRecords] = TypedOptions.bad_records
    corrupt_bytes_max: Option[int] = option("maxCorruptBytes", size(0), "1MiB").means(
        "the most bytes of damaged records that `_corrupt_record` has in one row; a key or value that "
        "cannot be decoded is there whole"
    )
    fail_on_data_loss: Option[bool] = option("failOnDataLoss", flag, "true").means(
        "`false`: if offsets are gone, log a warning and read what is left"
    )
    isolation_level: Option[int] = option(
        "kafka.isolation.level",
        map_words({"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}),
        "read_uncommitted",
        generation=MODERN,
    ).means("`read_committed`: leave out the records of open and aborted transactions")
    poll_timeout = option(
        "kafkaConsumer.pollTimeoutMs", seconds(is_capped=True), "120000", generation=MODERN
    ).means("the time that a task waits for records that are due, or for a leader, whatever `retries` is")
    fetch_bytes: Option[int] = option("fetchBytes", size(_FETCH_BYTES_MIN), "4MiB").means(
        "the size of one fetch, which must arrive within `requestTimeout`; from 0.8 on `12MiB`"
    )
    # Of 0.7's fetches several are under way at once, of later ones a single one: it may be larger.
    kafka_fetch_bytes = option(
        "kafka.max.partition.fetch.bytes", _kafka_fetch_bytes, "12MiB", generation=MODERN
    ).means("Kafka's name of `fetchBytes`")
    wait_ms: Option[int] = option("kafka.fetch.max.wait.ms", milliseconds, "500", generation=MODERN).means(
        "the time that a broker waits for a record"
    )
    fetches_in_flight: Option[int] = option("fetchesInFlight", count(1, 64), "4", generation=V07).means(
        "the number of fetches that wait for a response on one connection"
    )
    message_bytes_max: Option[int] = option("maxMessageBytes", size(1), "64MiB").means(
        "a larger message is an error"
    )
    decompressed_bytes_max: Option[int] = option("maxDecompressedBytes", size(1), "256MiB").means(
        "the largest size of one compressed message after decompression; each message in it counts as at "
        "least 128 bytes (256 in Kafka 0.8 to 0.10)"
    )

    retry_timeout_s: float = 0.0
    wire_format: WireFormat | None = None
    rack: ClientRack | None = None


def parse_fetch(options: RawOptions, net: NetOptions) -> FetchOptions:
    """Read the options of fetches. Raises ``OptionError`` (fatal)."""
    of, is_07 = FetchOptions, net.connection.generation is V07
    sizes = [of.fetch_bytes] if is_07 else [of.kafka_fetch_bytes, of.fetch_bytes]
    sized = dict.fromkeys((of.fetch_bytes, of.fetches_in_flight), _NO_SIZE)
    return of.parse(
        options,
        fetch_bytes=options.one_of(*sizes),
        retry_timeout_s=net.retry.retry_timeout_s if is_07 else options[of.poll_timeout],
        # A broker that waited for longer would seem not to respond.
        wait_ms=min(options[of.wait_ms], int(500 * net.request_timeout_s)),
        wire_format=parse_wire_format(options, sized),
        rack=options[NetOptions.rack],
    )
