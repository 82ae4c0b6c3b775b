"""Options of the delivery of a write, for both generations: the topic and the partitions of rows, compression
(from the table of codecs), acknowledgements, request sizes and deadlines, and exactly-once writes
(``delivery=exactly-once``) to Kafka 0.11 to 4.x.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from ..errors import OptionError, quote
from ..model import Generation
from ..net.client_rack import ClientRack
from ..net.retry import RetryPolicy
from ..protocol.modern.limits import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from ..records.compression import CODECS, Format, codec_names
from .connection import NetOptions
from .option import (
    INT32_MAX,
    INT64_MAX,
    MODERN,
    V07,
    WRITE,
    Group,
    Option,
    RawOptions,
    choice,
    count,
    flag,
    option,
    parse_string,
    seconds,
    size,
)

#: The classes of ``kafka.partitioner.class`` that are one of our partitioners.
_CLASSES: Final = {
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "murmur2",
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "roundrobin",
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": "sticky",
}


def _parse_class(name: str, given: str) -> str:
    if given.strip() not in _CLASSES:
        raise OptionError(
            f"option {name}: {quote(given.strip())} is a Java class, and no Java runs here; "
            "set the option partitioner instead, or fill a column partition"
        )
    return _CLASSES[given.strip()]


def parse_partitioner(options: RawOptions) -> str:
    """The name of the partitioner. Raises ``OptionError`` (fatal)."""
    chosen, ignores_keys = options[DeliveryOptions.partitioner], options[DeliveryOptions.ignores_keys]
    # As in Java: it is for the default partitioner, and others ignore it.
    return "sticky" if chosen == "murmur2" and ignores_keys else chosen


#: The values of ``compression``. The connection to a broker shows if it is new enough.
COMPRESSIONS: Final = {
    Generation.V07: codec_names(Format.MESSAGE_SET),
    Generation.MODERN: codec_names(Format.MAGIC_2),
}
#: The compressions that have levels, and their lowest and highest ones. Options hold no negative numbers. For
#: codecs with negative levels the lowest is 1, because 0 means the default.
LEVELS: Final = {
    codec.name: (1 if codec.levels[0] < 0 else codec.levels[0], codec.levels[1])
    for codec in CODECS.values()
    if codec.levels
}
#: Kafka's names of ``compressionLevel``: one for each codec. Only the name of the chosen codec counts.
LEVEL_OPTIONS: Final = {
    name: option(f"kafka.compression.{name}.level", parse_string, None, WRITE, MODERN).means(
        "Kafka's name of `compressionLevel`"
    )
    for name in LEVELS
}


def _compressions_meaning() -> str:
    everywhere = COMPRESSIONS[Generation.V07]
    later = [codec for codec in CODECS.values() if codec.name not in everywhere]
    return (
        ", ".join(f"`{name}`" for name in everywhere)
        + ", and from 0.8 on "
        + ", ".join(f"`{codec.name}` ({codec.since})" for codec in later)
    )


def _levels_meaning() -> str:
    (first, (low, high)), *others = LEVELS.items()
    return "; ".join(
        (f"{first}'s level, {low} to {high}", *(f"{name}'s, {low} to {high}" for name, (low, high) in others))
    )


def parse_compression(options: RawOptions, generation: Generation) -> tuple[str, int | None]:
    """The compression of a write and its level. Raises ``OptionError`` (fatal)."""
    of = DeliveryOptions.compression
    compression = choice(*COMPRESSIONS[generation])(options.name_of(of), options[of])
    own = [LEVEL_OPTIONS[compression]] if compression in LEVEL_OPTIONS else []
    chosen = options.chosen(DeliveryOptions.compression_level, *own)
    level = options.one_of(chosen)
    if level is None:
        return compression, None
    if compression not in LEVELS:
        raise OptionError(f"option {chosen} is not for compression={compression}; leave it out")
    return compression, count(*LEVELS[compression])(chosen.name, level)


@dataclass(frozen=True, slots=True)
class Acks:
    """Values of ``acks`` in one generation. With ``safest`` a later run finds each acknowledged row."""

    default: str
    safest: str
    values: tuple[str, ...]


ACKS_OF: Final = {
    V07: Acks("1", "verify", ("0", "1", "verify")),
    MODERN: Acks("all", "all", ("0", "1", "all", "-1")),
}
_ACKS_OF_PRODUCE: Final = {"0": ACKS_NONE, "1": ACKS_LEADER, "all": ACKS_ALL}
#: Requests in flight up to which a broker remembers a producer's batches. Source: KIP-98.
_IDEMPOTENT_IN_FLIGHT_MAX: Final = 5


@dataclass(frozen=True)
class DeliveryOptions(Group, sides=WRITE):
    """Delivery of batches to modern brokers; sizes in bytes.

    ``acks`` is Produce's own number. With ``insists_on_idempotence`` a write without idempotence is
    an error. ``timeout_s`` bounds the time from a batch's encoding to its ack, ``metadata_timeout_s``
    the wait for a topic to exist.

    With ``adapts``, slow brokers get fewer rows that choose no partition, and a broker that has not responded
    for ``available_s`` gets no such rows. A ``rack`` gets all such rows if leaders are there.
    """

    topic = option("topic", parse_string).means("the topic to write to; overrides a `topic` column")
    creates_topics: Option[bool] = option("createTopic", flag, "false", generation=MODERN).means(
        "`true`: create a topic that does not exist; see [Topics that do not exist]"
        "(reading-and-writing.md#topics-that-do-not-exist)"
    )
    topic_partitions: Option[int | None] = option(
        "topicPartitions", count(1, INT32_MAX), generation=MODERN
    ).means("the number of partitions of a topic that `createTopic` creates; by default the brokers' own")
    topic_replicas: Option[int | None] = option(
        "topicReplicationFactor", count(1, 32_767), generation=MODERN
    ).means("the number of replicas of its partitions; by default the brokers' own")
    partitioner = option(
        "partitioner",
        choice("murmur2", "consistent", "consistent_random", "roundrobin", "sticky"),
        "murmur2",
        aliases=(
            option("kafka.partitioner.class", _parse_class, generation=MODERN).means(
                "Java's name of `murmur2`, `roundrobin` or `sticky`"
            ),
        ),
    ).means(
        "how keys choose partitions: Java's `murmur2`, librdkafka's `consistent` (null keys in one "
        "partition) and `consistent_random`; `roundrobin`, row by row, and `sticky`, run by run, ignore keys"
    )
    seed = option("partitionerSeed", count(0, INT64_MAX)).means(
        "a whole number, the seed by which each task draws the first partition of its rows without keys, "
        "the same in each run"
    )
    ignores_keys = option("kafka.partitioner.ignore.keys", flag, "false", generation=MODERN).means(
        "`true`: `murmur2` becomes `sticky`"
    )
    adapts: Option[bool] = option(
        "kafka.partitioner.adaptive.partitioning.enable", flag, "true", generation=MODERN
    ).means(
        "`true`: slow brokers get fewer of the rows without keys; `false`: all brokers get the same "
        "number; not for `partitionerSeed` and `delivery=exactly-once`"
    )
    availability = option(
        "kafka.partitioner.availability.timeout.ms", seconds(zero=True), "0", generation=MODERN
    ).means(
        "a broker that has not answered for this time gets no rows without keys, while others answer; "
        "`0`: no limit"
    )
    is_rack_aware = option("kafka.partitioner.rack.aware", flag, "false", generation=MODERN).means(
        "`true`: rows without keys go to partitions whose leaders are in the rack of `clientRack`, if there "
        "are some; not for `partitionerSeed`"
    )
    # The choice depends on the generation, and the levels on the choice.
    compression = (
        option("compression", parse_string, "none")
        .means(_compressions_meaning())
        .also("kafka.compression.type")
    )
    compression_level = option("compressionLevel", parse_string, aliases=tuple(LEVEL_OPTIONS.values())).means(
        _levels_meaning()
    )
    acknowledged = (
        option("acks", parse_string)
        .means(
            "the acknowledgement that a task waits for: `0`, `1` or `verify` in 0.7 (by default `1`), `0`, "
            "`1` or `all` later (by default `all`)"
        )
        .also("kafka.acks")
    )
    # Kafka's own batch.size may be 0, which means one record each.
    batch_bytes = (
        option("batchBytes", size(0), "1000000")
        .means("the bytes of messages gathered for one request, or for one batch from 0.8 on")
        .also("kafka.batch.size")
    )
    # Brokers drop a message set with a larger message, and report nothing.
    message_size_max = option("max.message.size", size(1), "1000000", generation=V07).means(
        "the brokers' own setting of that name"
    )
    idempotence = option("kafka.enable.idempotence", flag, generation=MODERN).means(
        "a batch that is sent again is stored once: `true` unless other options that are set exclude it"
    )
    request_bytes_max: Option[int] = option(
        "kafka.max.request.size", size(1), "1000000", generation=MODERN
    ).means(
        "the largest request, and the largest record; unless it is set, a record may have 1048576 bytes, "
        "Kafka's own default, and goes alone in a larger request"
    )
    buffer_bytes: Option[int] = option("kafka.buffer.memory", size(1), "33554432", generation=MODERN).means(
        "the bytes that a task gathers before it sends"
    )
    requests_in_flight: Option[int] = option(
        "kafka.max.in.flight.requests.per.connection", count(1, 1000), "5", generation=MODERN
    ).means("the requests that wait for one broker at the same time")
    timeout_s: Option[float] = option(
        "kafka.delivery.timeout.ms", seconds(), "120000", generation=MODERN
    ).means("the time to deliver a batch, retries included")
    metadata_timeout_s: Option[float] = option(
        "kafka.max.block.ms", seconds(), "60000", generation=MODERN
    ).means("the time to wait for a topic that does not exist yet")
    linger = option("kafka.linger.ms", count(0, INT32_MAX), "0", generation=MODERN).means(
        "ignored: a batch waits until it is full"
    )

    acks: int = ACKS_ALL
    idempotent: bool = True
    insists_on_idempotence: bool = False
    retry: RetryPolicy = RetryPolicy(INT32_MAX)
    available_s: float | None = None
    rack: ClientRack | None = None


def parse_acks(options: RawOptions, generation: Generation) -> str:
    """The acknowledgement that a task waits for. Raises ``OptionError`` (fatal)."""
    known, of = ACKS_OF[generation], DeliveryOptions.acknowledged
    given = options[of]
    acks = known.default if given is None else choice(*known.values)(options.name_of(of), given)
    return "all" if acks == "-1" else acks


def parse_delivery(options: RawOptions, net: NetOptions, acks: str) -> DeliveryOptions:
    """Read the options of delivery as the Java producer does. Raises ``OptionError`` (fatal)."""
    of = DeliveryOptions
    retries = net.retry.retries if options.given(NetOptions.retries) else INT32_MAX
    in_flight = options[of.requests_in_flight]
    _ = options[of.linger]  # checked, and ignored
    delivery = of.parse(
        options,
        acks=_ACKS_OF_PRODUCE[acks],
        idempotent=_idempotent(options, acks, in_flight, retries),
        insists_on_idempotence=options[of.idempotence] is True,
        # As in Java, a producer tries again until kafka.delivery.timeout.ms unless retries is set.
        retry=RetryPolicy(retries, net.retry.backoff_s),
        timeout_s=_timeout_s(options, net),
        adapts=_adapts(options),
        available_s=options[of.availability] or None,
        rack=_rack(options),
    )
    if (given := options.given(of.topic_partitions, of.topic_replicas)) and not delivery.creates_topics:
        raise OptionError(f"option {given[0]} is for a topic that is created: set createTopic=true, too")
    return delivery


def _rack(options: RawOptions) -> ClientRack | None:
    """The rack that rows without keys prefer; None for none. Raises ``OptionError`` (fatal)."""
    of, rack = DeliveryOptions.is_rack_aware, options[NetOptions.rack]
    if not options[of]:
        return None
    if rack is None:
        raise OptionError(
            f"option {of}=true needs the rack of the executors: set {NetOptions.rack} to broker.rack of the "
            "brokers near them, or to env:NAME, where each executor has its own"
        )
    if options.given(DeliveryOptions.seed):
        raise OptionError(
            f"option {of}=true makes partitions depend on the racks of executors, and partitionerSeed makes "
            "them the same in each run; leave one of them out"
        )
    return rack


def _adapts(options: RawOptions) -> bool:
    """True if slow brokers get fewer of the rows without keys. Raises ``OptionError`` (fatal)."""
    if not options[DeliveryOptions.adapts]:
        return False
    if not options.given(DeliveryOptions.seed):
        return True
    if options.given(DeliveryOptions.adapts):
        raise OptionError(
            f"option {DeliveryOptions.adapts}=true makes partitions depend on the speed of brokers, and "
            "partitionerSeed makes them the same in each run; leave one of them out"
        )
    return False


def _timeout_s(options: RawOptions, net: NetOptions) -> float:
    """As in Java: a batch has the time of one request at least. Source: KafkaProducer.java."""
    timeout_s = options[DeliveryOptions.timeout_s]
    if timeout_s < net.request_timeout_s and options.given(DeliveryOptions.timeout_s):
        raise OptionError(
            f"option kafka.delivery.timeout.ms: {timeout_s:g} s is less than the {net.request_timeout_s:g} "
            "s of requestTimeout, the time in which a broker may answer; raise the one, or lower the other"
        )
    return max(timeout_s, net.request_timeout_s)


def _idempotent(options: RawOptions, acks: str, in_flight: int, retries: int) -> bool:
    """On, unless it is switched off or other options that were set do not go with it."""
    wanted = options[DeliveryOptions.idempotence]
    if wanted is False:
        return False
    problems = [
        problem
        for is_so, problem in (
            (acks != "all", "acks=all"),
            (
                in_flight > _IDEMPOTENT_IN_FLIGHT_MAX,
                f"kafka.max.in.flight.requests.per.connection of at most {_IDEMPOTENT_IN_FLIGHT_MAX} "
                f"(it is {in_flight})",
            ),
            (retries == 0, "retries above 0"),
        )
        if is_so
    ]
    if problems and wanted:
        raise OptionError(
            f"option kafka.enable.idempotence: true needs {' and '.join(problems)}; set it so, or leave "
            "kafka.enable.idempotence out"
        )
    return not problems


EXACTLY_ONCE: Final = "exactly-once"
#: Longest name of writes, and of a batch, characters: they are part of texts of 4096 bytes that brokers keep.
_NAME_SIZE_MAX: Final = 120
#: Shortest timeout, ms: a write takes that long.
_TIMEOUT_MS_MIN: Final = 1_000


def _name(option: str, given: str) -> str:
    name = given.strip()
    if not 0 < len(name) <= _NAME_SIZE_MAX or not (name.isascii() and name.isprintable()):
        raise OptionError(
            f"option {option}: {quote(name)} is not a name: set one of 1 to {_NAME_SIZE_MAX} ASCII characters"
        )
    return name


@dataclass(frozen=True)
class TransactionOptions(Group, sides=WRITE, generation=MODERN):
    """An exactly-once write: its rows are committed in one step.

    ``prefix`` begins its transactional ids; ``is_named`` is true if the user gave it. ``batch`` identifies
    the write among those of that name. ``timeout_ms`` is None for the brokers' own timeout, or if
    ``two_phase_commit`` switches the timeout of transactions off.
    """

    prefix: str
    is_named: bool
    batch: str = ""
    delivery = option("delivery", choice("at-least-once", EXACTLY_ONCE), "at-least-once").means(
        "`exactly-once`: the write is all or nothing; see [Exactly once](exactly-once.md)"
    )
    transactional_id = option("kafka.transactional.id", _name).means(
        "names the write, or the stream, for `delivery=exactly-once`: a second run writes nothing; "
        "required for streams"
    )
    batch_name = option("batch", _name).means(
        "names one of the writes of one `kafka.transactional.id`; not for streams, which number theirs"
    )
    timeout_ms: Option[int | None] = option(
        "kafka.transaction.timeout.ms", count(_TIMEOUT_MS_MIN, INT32_MAX)
    ).means(
        "the time that a task's transaction may stay open; by default 15 min, or the brokers' maximum if "
        "that is less"
    )
    two_phase_commit: Option[bool] = option("twoPhaseCommit", flag, "false").means(
        "`true`: no timeout ends transactions, if brokers allow that (KIP-939)"
    )


def parse_transactions(options: RawOptions, delivery: DeliveryOptions) -> TransactionOptions | None:
    """Settings of an exactly-once write; None for other writes. Raises ``OptionError`` (fatal)."""
    of = TransactionOptions
    if options[of.delivery] != EXACTLY_ONCE:
        if given := options.given(of.transactional_id, of.timeout_ms, of.batch_name, of.two_phase_commit):
            raise OptionError(f"option {given[0]} is for transactions: set delivery={EXACTLY_ONCE} too")
        return None
    if not delivery.idempotent:
        raise OptionError(
            f"option delivery: {EXACTLY_ONCE} needs what idempotent writes do: leave acks, retries, "
            "kafka.enable.idempotence and kafka.max.in.flight.requests.per.connection out"
        )
    name, batch = options[of.transactional_id], options[of.batch_name]
    if batch is not None and name is None:
        raise OptionError(
            "option batch distinguishes writes of one kafka.transactional.id, which is not set: set that "
            "too, or leave batch out"
        )
    timeout_ms = options[of.timeout_ms]
    return of(
        prefix=name or f"kafkawire-{uuid.uuid4().hex[:16]}",
        is_named=name is not None,
        batch=batch or "",
        timeout_ms=timeout_ms,
        two_phase_commit=_two_phase_commit(options, name, timeout_ms),
    )


def _two_phase_commit(options: RawOptions, name: str | None, timeout_ms: int | None) -> bool:
    if not options[TransactionOptions.two_phase_commit]:
        return False
    if timeout_ms is not None:
        raise OptionError(
            "option kafka.transaction.timeout.ms: with twoPhaseCommit no timeout ends a transaction; leave "
            "one of the two out"
        )
    if name is None:
        raise OptionError(
            "option twoPhaseCommit: no timeout ends the transactions of a write that dies, only its next run "
            "with the same name does: set kafka.transactional.id too"
        )
    return True
