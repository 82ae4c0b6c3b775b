"""Options of a write to brokers of Kafka 0.8 and later: Java's producer reads them so."""

from __future__ import annotations

import pickle
from typing import Any, Final

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import Generation
from spark_kafkawire.net.retry import RetryPolicy
from spark_kafkawire.options import OPTIONS, DeliveryOptions, TransactionOptions, WriteOptions
from spark_kafkawire.options.compression import LEVEL_OPTIONS, LEVELS
from spark_kafkawire.protocol.modern.limits import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from spark_kafkawire.records.compression.codec import Format
from spark_kafkawire.records.compression.table import codec_named
from tests.support.cases import for_each

SERVERS: Final = {"kafka.bootstrap.servers": "a:9092"}
IDEMPOTENCE: Final = "kafka.enable.idempotence"
IN_FLIGHT: Final = "kafka.max.in.flight.requests.per.connection"
ADAPTIVE: Final = "kafka.partitioner.adaptive.partitioning.enable"
AVAILABILITY: Final = "kafka.partitioner.availability.timeout.ms"


def write(**changes: str) -> WriteOptions:
    return WriteOptions.parse({**SERVERS, **changes})


def test_a_write_has_javas_defaults_but_for_requests_that_event_hubs_takes() -> None:
    options = write()
    assert (options.acks, options.compression, options.compression_level) == ("all", "none", None)
    assert (options.topic, options.partitioner) == (None, "murmur2")
    assert (options.batch_bytes, options.message_size_max) == (1_000_000, 1 << 20)
    assert options.delivery == DeliveryOptions(
        acks=ACKS_ALL,
        idempotent=True,
        insists_on_idempotence=False,
        requests_in_flight=5,
        request_bytes_max=1_000_000,
        buffer_bytes=32 << 20,
        retry=RetryPolicy(2**31 - 1, 0.1),
        timeout_s=120.0,
        metadata_timeout_s=60.0,
        adapts=True,
        available_s=None,
    )


VALUES: Final[list[tuple[str, str, str, Any]]] = [
    ("partitioner", "consistent", "partitioner", "consistent"),
    ("partitioner", "consistent_random", "partitioner", "consistent_random"),
    ("partitioner", "roundrobin", "partitioner", "roundrobin"),
    ("partitioner", "sticky", "partitioner", "sticky"),
    ("kafka.partitioner.ignore.keys", "false", "partitioner", "murmur2"),
    ("kafka.partitioner.ignore.keys", "TRUE", "partitioner", "sticky"),
    (
        "kafka.partitioner.class",
        "org.apache.kafka.clients.producer.RoundRobinPartitioner",
        "partitioner",
        "roundrobin",
    ),
    (
        "kafka.partitioner.class",
        "org.apache.kafka.clients.producer.internals.DefaultPartitioner",
        "partitioner",
        "murmur2",
    ),
    (
        "kafka.partitioner.class",
        "org.apache.kafka.clients.producer.UniformStickyPartitioner",
        "partitioner",
        "sticky",
    ),
    ("compression", "lz4", "compression", "lz4"),
    ("kafka.compression.type", "ZSTD", "compression", "zstd"),
    ("kafka.compression.type", "GZIP", "compression", "gzip"),
    ("kafka.acks", "ALL", "delivery.acks", ACKS_ALL),
    ("acks", "0", "delivery.acks", ACKS_NONE),
    ("kafka.acks", "1", "delivery.acks", ACKS_LEADER),
    ("kafka.acks", "-1", "delivery.acks", ACKS_ALL),
    ("kafka.acks", "-1", "acks", "all"),
    ("batchBytes", "64KiB", "batch_bytes", 1 << 16),
    ("kafka.batch.size", "16384", "batch_bytes", 16384),
    ("kafka.batch.size", "0", "batch_bytes", 1),
    ("kafka.batch.size", "2097152", "batch_bytes", 1_000_000),
    (IDEMPOTENCE, "false", "delivery.idempotent", False),
    (IDEMPOTENCE, "false", "delivery.insists_on_idempotence", False),
    (IDEMPOTENCE, "true", "delivery.insists_on_idempotence", True),
    ("kafka.max.request.size", "2097152", "delivery.request_bytes_max", 2 << 20),
    ("kafka.max.request.size", "2097152", "message_size_max", 2 << 20),
    ("kafka.buffer.memory", "1000", "delivery.buffer_bytes", 1000),
    (IN_FLIGHT, "1", "delivery.requests_in_flight", 1),
    ("kafka.delivery.timeout.ms", "50000", "delivery.timeout_s", 50.0),
    ("kafka.max.block.ms", "250", "delivery.metadata_timeout_s", 0.25),
    ("kafka.delivery.timeout.ms", "2147483647", "delivery.timeout_s", 86_400.0),
    ("kafka.max.block.ms", "9223372036854775807", "delivery.metadata_timeout_s", 86_400.0),
    ("kafka.request.timeout.ms", "2147483647", "net.request_timeout_s", 86_400.0),
    ("kafka.buffer.memory", "4294967296", "delivery.buffer_bytes", 1 << 30),
    ("kafka.max.request.size", "2147483647", "delivery.request_bytes_max", 1 << 30),
    ("kafka.linger.ms", "5", "acks", "all"),
    (ADAPTIVE, "FALSE", "delivery.adapts", False),
    (ADAPTIVE, "true", "delivery.adapts", True),
    ("partitionerSeed", "1", "delivery.adapts", False),
    (AVAILABILITY, "0", "delivery.available_s", None),
    (AVAILABILITY, "1500", "delivery.available_s", 1.5),
    (AVAILABILITY, "9223372036854775807", "delivery.available_s", 86_400.0),
    ("includeHeaders", "true", "acks", "all"),
    ("retries", "7", "delivery.retry", RetryPolicy(7, 0.1)),
    ("kafka.retries", "7", "delivery.retry", RetryPolicy(7, 0.1)),
]


@for_each(("name", "value", "path", "expected"), VALUES)
def test_a_value_is_parsed(name: str, value: str, path: str, expected: object) -> None:
    options = write(**{name: value})
    found: Any = options
    for attribute in path.split("."):
        found = getattr(found, attribute)
    assert found == expected
    assert pickle.loads(pickle.dumps(options)) == options


def test_every_option_of_a_modern_write_has_a_value_here() -> None:
    tried = {name for name, *_ in VALUES}
    own = {option.name for option in OPTIONS if not option.read and option.generation is Generation.MODERN}
    # Those of transactions go together, and are tried below.
    of_transactions = {"delivery", "batch", "kafka.transactional.id", "kafka.transaction.timeout.ms"}
    of_transactions |= {"twoPhaseCommit"}
    assert own - tried == {option.name for option in LEVEL_OPTIONS.values()} | of_transactions


@pytest.mark.parametrize("codec", LEVELS)
def test_a_level_is_for_the_codec_that_has_it(codec: str) -> None:
    lowest, highest = LEVELS[codec]
    for name in ("compressionLevel", f"kafka.compression.{codec}.level"):
        for level in (lowest, highest):
            options = write(compression=codec, **{name: str(level)})
            assert options.compression_level == level
            compress = codec_named(codec, Format.MAGIC_2)
            assert compress
            assert len(compress.compress(b"text" * 1000, level)) < 1000
        with pytest.raises(OptionError, match=f"^option {name}: '{highest + 1}' is not a whole number"):
            write(compression=codec, **{name: str(highest + 1)})


def test_the_level_of_another_codec_means_nothing() -> None:
    options = write(compression="gzip", **{"kafka.compression.zstd.level": "3"})
    assert options.compression_level is None


@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_a_level_without_a_codec_that_has_any_is_an_error(compression: str) -> None:
    with pytest.raises(OptionError, match=f"^option compressionLevel is not for compression={compression}"):
        write(compression=compression, compressionLevel="1")


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ({"acks": "1"}, "acks=all"),
        ({"kafka.acks": "0"}, "acks=all"),
        ({IN_FLIGHT: "6"}, f"{IN_FLIGHT} of 5 or fewer"),
        ({"retries": "0"}, "retries above 0"),
        ({"acks": "1", "retries": "0"}, "acks=all and retries above 0"),
    ],
)
def test_what_does_not_go_with_idempotence_ends_it_or_contradicts_it(
    changes: dict[str, str], needs: str
) -> None:
    assert not write(**changes).delivery.idempotent
    assert not write(**changes, **{IDEMPOTENCE: "false"}).delivery.idempotent
    with pytest.raises(OptionError) as error:
        write(**changes, **{IDEMPOTENCE: "true"})
    assert str(error.value) == f"option {IDEMPOTENCE}: true needs {needs}"


@for_each(
    ("name", "value"),
    [
        ("acks", "verify"),
        ("acks", "2"),
        ("kafka.acks", ""),
        ("compression", "brotli"),
        ("kafka.compression.type", "gzip1"),
        ("partitioner", "random"),
        ("kafka.partitioner.class", "com.example.Mine"),
        ("kafka.partitioner.ignore.keys", "maybe"),
        ("batchBytes", "much"),
        ("kafka.batch.size", "-1"),
        (IDEMPOTENCE, "maybe"),
        ("kafka.max.request.size", "0"),
        ("kafka.buffer.memory", "0"),
        (IN_FLIGHT, "0"),
        ("kafka.delivery.timeout.ms", "0"),
        ("kafka.max.block.ms", "-1"),
        ("kafka.linger.ms", "x"),
        (ADAPTIVE, "yes"),
        (ADAPTIVE, ""),
        (AVAILABILITY, "-1"),
        (AVAILABILITY, "soon"),
        ("includeHeaders", "maybe"),
    ],
)
def test_a_bad_value_is_told(name: str, value: str) -> None:
    with pytest.raises(OptionError) as error:
        write(**{name: value})
    assert str(error.value).startswith(f"option {name}: {value!r} is ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "kafkas"),
    [
        ("acks", "kafka.acks"),
        ("compression", "kafka.compression.type"),
        ("batchBytes", "kafka.batch.size"),
        ("partitioner", "kafka.partitioner.class"),
        ("compressionLevel", "kafka.compression.gzip.level"),
    ],
)
def test_two_names_of_one_option_contradict_each_other(name: str, kafkas: str) -> None:
    with pytest.raises(OptionError, match=f"^options {name} and {kafkas} name the same setting"):
        write(**{"compression": "gzip", name: "1", kafkas: "1"})


def test_a_batch_has_the_time_of_one_request_at_least() -> None:
    with pytest.raises(OptionError) as error:
        write(**{"kafka.delivery.timeout.ms": "5000"})
    assert str(error.value) == (
        "option kafka.delivery.timeout.ms: 5 s is less than the 30 s of requestTimeout, the time in which a "
        "broker may answer; raise the one, or lower the other"
    )
    assert write(**{"kafka.delivery.timeout.ms": "5000", "requestTimeout": "5s"}).delivery.timeout_s == 5.0
    assert write(requestTimeout="10m").delivery.timeout_s == 600.0


ONCE: Final = {"delivery": "exactly-once"}
NAMED: Final = {"kafka.transactional.id": "a"}


def test_a_write_that_is_to_be_there_once_has_a_name_of_its_own_or_a_given_one() -> None:
    made = [write(**ONCE).transactions for _ in range(2)]
    assert all(each is not None and not each.is_named and each.batch == "" for each in made)
    assert made[0] != made[1]
    given = write(
        **ONCE, **{"kafka.transactional.id": " a ", "batch": "7", "kafka.transaction.timeout.ms": "5000"}
    )
    assert given.transactions == TransactionOptions("a", is_named=True, batch="7", timeout_ms=5000)
    in_two_phases = write(**ONCE, **{"kafka.transactional.id": "a"}, twoPhaseCommit="true")
    assert in_two_phases.transactions == TransactionOptions("a", is_named=True, two_phase_commit=True)
    assert write().transactions is None
    assert write(delivery="at-least-once").transactions is None


@for_each(
    ("changes", "message"),
    [
        (
            {"kafka.transactional.id": "a"},
            "option kafka.transactional.id is for transactions: set delivery=exactly-",
        ),
        ({"batch": "a"}, "option batch is for transactions: set delivery=exactly-once too"),
        (
            {**ONCE, "batch": "a"},
            "option batch: it names a write among those of kafka.transactional.id: set that",
        ),
        (
            {**ONCE, "acks": "1"},
            "option delivery: exactly-once needs what idempotent writes do: leave acks, ",
        ),
        (
            {**ONCE, "kafka.transactional.id": " "},
            "option kafka.transactional.id: '' is not a name: names have 1 to 120",
        ),
        (
            {**ONCE, "kafka.transactional.id": "a" * 121},
            " is not a name: names have 1 to 120 ASCII characters",
        ),
        ({**ONCE, "kafka.transactional.id": "\u00e9"}, "'\u00e9' is not a name"),
        ({**ONCE, "kafka.transaction.timeout.ms": "1"}, "option kafka.transaction.timeout.ms"),
        ({"twoPhaseCommit": "true"}, "option twoPhaseCommit is for transactions: set delivery=exactly-once "),
        (
            {**ONCE, "twoPhaseCommit": "true"},
            "only its next run with the same name does: set kafka.transactional.id too",
        ),
        (
            {**ONCE, **NAMED, "twoPhaseCommit": "true", "kafka.transaction.timeout.ms": "5000"},
            "option kafka.transaction.timeout.ms: with twoPhaseCommit no timeout ends a transaction; leave",
        ),
        ({**ONCE, **NAMED, "twoPhaseCommit": "yes"}, "option twoPhaseCommit: 'yes' is not true or false"),
        ({"delivery": "once"}, "option delivery: 'once' is not at-least-once or exactly-once"),
    ],
)
def test_options_of_transactions_that_do_not_go_together_are_refused(
    changes: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError) as error:
        write(**changes)
    assert message in str(error.value)


def test_a_topic_is_bare() -> None:
    assert write(topic=" t ").topic == "t"


def test_what_is_alike_in_each_run_does_not_go_by_how_fast_brokers_are() -> None:
    with pytest.raises(
        OptionError, match=r"^option kafka\.partitioner\.adaptive\..*partitionerSeed makes them the same"
    ):
        write(**{ADAPTIVE: "true", "partitionerSeed": "1"})
    assert not write(**{ADAPTIVE: "false", "partitionerSeed": "1"}).delivery.adapts
