"""Options of the delivery of a write, for both generations: acknowledgements, request sizes and deadlines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ..errors import OptionError
from ..model import Generation
from ..net.retry import RetryPolicy
from ..protocol.modern.limits import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from .connect import RETRIES, NetOptions
from .option import (
    INT32_MAX,
    MODERN,
    V07,
    WRITE,
    choice,
    count,
    flag,
    kafka_name,
    option,
    seconds,
    size,
    string,
)
from .partitioner import AVAILABILITY, parse_adapts
from .raw import RawOptions


@dataclass(frozen=True, slots=True)
class Acks:
    """Values of ``acks`` in one generation. With ``safest`` a later run finds each acknowledged row."""

    default: str
    safest: str
    values: tuple[str, ...]


ACKS_OF: Final[Mapping[Generation, Acks]] = MappingProxyType(
    {V07: Acks("1", "verify", ("0", "1", "verify")), MODERN: Acks("all", "all", ("0", "1", "all", "-1"))}
)
_ACKS_OF_PRODUCE: Final = {"0": ACKS_NONE, "1": ACKS_LEADER, "all": ACKS_ALL}
#: Requests in flight up to which a broker remembers a producer's batches. Source: KIP-98.
_IDEMPOTENT_IN_FLIGHT_MAX: Final = 5

ACKS: Final = option(
    "acks",
    string,
    sides=WRITE,
    aliases=(kafka_name("kafka.acks", "acks", string, WRITE),),
    meaning="the acknowledgement that a task waits for: `0`, `1` or `verify` in 0.7 (by default `1`), `0`, "
    "`1` or `all` later (by default `all`)",
)
BATCH_BYTES: Final = option(
    "batchBytes",
    # Kafka's own batch.size may be 0, which means one record each.
    size(0),
    default="1000000",
    sides=WRITE,
    aliases=(kafka_name("kafka.batch.size", "batchBytes", size(0), WRITE),),
    meaning="the bytes of messages gathered for one request, or for one batch from 0.8 on",
)
# Brokers drop a message set with a larger message, and report nothing.
MESSAGE_SIZE: Final = option(
    "max.message.size",
    size(1),
    default="1000000",
    sides=WRITE,
    generation=V07,
    meaning="the brokers' own setting of that name",
)
IDEMPOTENCE: Final = option(
    "kafka.enable.idempotence",
    flag,
    sides=WRITE,
    generation=MODERN,
    meaning="a batch that is sent again is stored once: `true` unless other options that are set exclude it",
)
REQUEST_BYTES: Final = option(
    "kafka.max.request.size",
    size(1),
    default="1000000",
    sides=WRITE,
    generation=MODERN,
    meaning="the largest request, and the largest record; unless it is set, a record may have 1048576 bytes, "
    "Kafka's own default, and goes alone in a larger request",
)
BUFFER_BYTES: Final = option(
    "kafka.buffer.memory",
    size(1),
    default="33554432",
    sides=WRITE,
    generation=MODERN,
    meaning="the bytes that a task gathers before it sends",
)
REQUESTS_IN_FLIGHT: Final = option(
    "kafka.max.in.flight.requests.per.connection",
    count(1, 1000),
    default="5",
    sides=WRITE,
    generation=MODERN,
    meaning="the requests that wait for one broker at the same time",
)
DELIVERY_TIMEOUT: Final = option(
    "kafka.delivery.timeout.ms",
    seconds(),
    default="120000",
    sides=WRITE,
    generation=MODERN,
    meaning="the time to deliver a batch, retries included",
)
MAX_BLOCK: Final = option(
    "kafka.max.block.ms",
    seconds(),
    default="60000",
    sides=WRITE,
    generation=MODERN,
    meaning="the time to wait for a topic that does not exist yet",
)
LINGER: Final = option(
    "kafka.linger.ms",
    count(0, INT32_MAX),
    default="0",
    sides=WRITE,
    generation=MODERN,
    meaning="ignored: a batch waits until it is full",
)


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """Delivery of batches to modern brokers; sizes in bytes.

    ``acks`` is Produce's own number. With ``insists_on_idempotence`` a write without idempotence is
    an error. ``timeout_s`` bounds the time from a batch's encoding to its ack, ``metadata_timeout_s``
    the wait for a topic to exist.

    With ``adapts``, slow brokers get fewer rows that choose no partition, and a broker that has not responded
    for ``available_s`` gets no such rows.
    """

    acks: int = ACKS_ALL
    idempotent: bool = True
    insists_on_idempotence: bool = False
    requests_in_flight: int = REQUESTS_IN_FLIGHT.value
    request_bytes_max: int = REQUEST_BYTES.value
    buffer_bytes: int = BUFFER_BYTES.value
    retry: RetryPolicy = RetryPolicy(INT32_MAX)
    timeout_s: float = DELIVERY_TIMEOUT.value
    metadata_timeout_s: float = MAX_BLOCK.value
    adapts: bool = True
    available_s: float | None = None


def parse_acks(options: RawOptions, generation: Generation) -> str:
    """The acknowledgement that a task waits for. Raises ``OptionError`` (fatal)."""
    known, given = ACKS_OF[generation], options[ACKS]
    acks = known.default if given is None else choice(*known.values)(options.name_of(ACKS), given)
    return "all" if acks == "-1" else acks


def parse_delivery(options: RawOptions, net: NetOptions, acks: str) -> DeliveryOptions:
    """Read the options of delivery as the Java producer does. Raises ``OptionError`` (fatal)."""
    in_flight, retries = options[REQUESTS_IN_FLIGHT], _retries(options, net)
    _ = options[LINGER]  # checked, and ignored
    return DeliveryOptions(
        acks=_ACKS_OF_PRODUCE[acks],
        idempotent=_idempotent(options, acks, in_flight, retries),
        insists_on_idempotence=options[IDEMPOTENCE] is True,
        requests_in_flight=in_flight,
        request_bytes_max=options[REQUEST_BYTES],
        buffer_bytes=options[BUFFER_BYTES],
        retry=RetryPolicy(retries, net.retry.backoff_s),
        timeout_s=_timeout_s(options, net),
        metadata_timeout_s=options[MAX_BLOCK],
        adapts=parse_adapts(options),
        available_s=options[AVAILABILITY] or None,
    )


def _timeout_s(options: RawOptions, net: NetOptions) -> float:
    """As in Java: a batch has the time of one request at least. Source: KafkaProducer.java."""
    timeout_s = options[DELIVERY_TIMEOUT]
    if timeout_s < net.request_timeout_s and options.given(DELIVERY_TIMEOUT):
        raise OptionError(
            f"option kafka.delivery.timeout.ms: {timeout_s:g} s is less than the "
            f"{net.request_timeout_s:g} s of "
            "requestTimeout, the time in which a broker may answer; raise the one, or lower the other"
        )
    return max(timeout_s, net.request_timeout_s)


def _retries(options: RawOptions, net: NetOptions) -> int:
    # As in Java, a producer tries again until kafka.delivery.timeout.ms unless retries is set.
    return net.retry.retries if options.given(RETRIES) else INT32_MAX


def _idempotent(options: RawOptions, acks: str, in_flight: int, retries: int) -> bool:
    """On, unless it is switched off or other options that were set do not go with it."""
    wanted = options[IDEMPOTENCE]
    if wanted is False:
        return False
    problems = [
        problem
        for is_so, problem in (
            (acks != "all", "acks=all"),
            (
                in_flight > _IDEMPOTENT_IN_FLIGHT_MAX,
                f"kafka.max.in.flight.requests.per.connection of {_IDEMPOTENT_IN_FLIGHT_MAX} or fewer",
            ),
            (retries == 0, "retries above 0"),
        )
        if is_so
    ]
    if problems and wanted:
        raise OptionError(
            f"option kafka.enable.idempotence: true needs {' and '.join(problems)}; set it so, or leave the "
            "option out"
        )
    return not problems
