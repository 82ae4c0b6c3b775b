"""Options of how a write's batches get to brokers of Kafka 0.8 and later."""

from __future__ import annotations

from typing import Final

from ..errors import OptionError
from ..net.retry import RetryPolicy
from ..protocol.modern.acks import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from .raw import RawOptions
from .values import DeliveryOptions, NetOptions

_ACKS: Final = {"0": ACKS_NONE, "1": ACKS_LEADER, "all": ACKS_ALL, "-1": ACKS_ALL}
#: Requests in flight up to which a broker remembers a producer's batches. Source: KIP-98.
_IDEMPOTENT_IN_FLIGHT_MAX: Final = 5
_ADAPTIVE: Final = "kafka.partitioner.adaptive.partitioning.enable"
_AVAILABILITY: Final = "kafka.partitioner.availability.timeout.ms"
_INT32_MAX: Final = (1 << 31) - 1


def parse_delivery(options: RawOptions, net: NetOptions, acks: str) -> DeliveryOptions:
    """How to deliver, as the Java producer reads its properties. Raises ``OptionError`` (fatal)."""
    in_flight = options.count("kafka.max.in.flight.requests.per.connection", 1, 1000)
    assert in_flight is not None
    retries = _retries(options, net)
    options.count("kafka.linger.ms", 0, _INT32_MAX)
    insists = options.given("kafka.enable.idempotence") != [] and options.flag("kafka.enable.idempotence")
    return DeliveryOptions(
        acks=_ACKS[acks],
        idempotent=_idempotent(options, _ACKS[acks], in_flight, retries),
        insists_on_idempotence=insists,
        requests_in_flight=in_flight,
        request_bytes_max=options.size_or_default("kafka.max.request.size", 1),
        buffer_bytes=options.size_or_default("kafka.buffer.memory", 1),
        retry=RetryPolicy(retries, net.retry.backoff_s),
        timeout_s=_timeout_s(options, net),
        metadata_timeout_s=options.seconds("kafka.max.block.ms"),
        adapts=_adapts(options),
        available_s=options.seconds(_AVAILABILITY, zero=True) or None,
    )


def _adapts(options: RawOptions) -> bool:
    """Whether slow brokers get fewer of the rows that choose no log."""
    if not options.flag(_ADAPTIVE):
        return False
    if not options.given("partitionerSeed"):
        return True
    if options.given(_ADAPTIVE):
        raise OptionError(
            f"option {_ADAPTIVE}: what goes by how fast brokers are is not alike in each run, as "
            "partitionerSeed has it; leave one of them out"
        )
    return False


def _timeout_s(options: RawOptions, net: NetOptions) -> float:
    """As in Java: a batch has the time of one request at least. Source: KafkaProducer.java."""
    timeout_s = options.seconds("kafka.delivery.timeout.ms")
    if timeout_s < net.request_timeout_s and options.given("kafka.delivery.timeout.ms"):
        raise OptionError(
            f"option kafka.delivery.timeout.ms: {timeout_s:g} s are fewer than the "
            f"{net.request_timeout_s:g} s of "
            "requestTimeout, within which a broker may answer; raise the one, or lower the other"
        )
    return max(timeout_s, net.request_timeout_s)


def _retries(options: RawOptions, net: NetOptions) -> int:
    # Like Java's, a producer goes on until kafka.delivery.timeout.ms unless it is told how often.
    return net.retry.retries if options.given("retries", "kafka.retries") else _INT32_MAX


def _idempotent(options: RawOptions, acks: int, in_flight: int, retries: int) -> bool:
    """On, unless it is switched off or other options that were set do not go with it."""
    if options.given("kafka.enable.idempotence") and not options.flag("kafka.enable.idempotence"):
        return False
    problems = [
        problem
        for is_so, problem in (
            (acks != ACKS_ALL, "acks=all"),
            (
                in_flight > _IDEMPOTENT_IN_FLIGHT_MAX,
                f"kafka.max.in.flight.requests.per.connection of {_IDEMPOTENT_IN_FLIGHT_MAX} or fewer",
            ),
            (retries == 0, "retries above 0"),
        )
        if is_so
    ]
    if problems and options.given("kafka.enable.idempotence"):
        raise OptionError(f"option kafka.enable.idempotence: true needs {' and '.join(problems)}")
    return not problems
