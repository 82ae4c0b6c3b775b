"""Options of a write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ..errors import OptionError, quoted
from ..model import Generation, WireFormat
from .compression import COMPRESSIONS, LEVEL_OPTIONS, LEVELS
from .connect import parse_discovery, parse_net, parse_wire_format
from .delivery import parse_delivery
from .raw import RawOptions
from .transactions import parse_transactions
from .values import DeliveryOptions, Discovery, NetOptions, TransactionOptions

#: What stands for one of our partitioners in ``kafka.partitioner.class``.
_PARTITIONER_CLASSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "murmur2",
        "org.apache.kafka.clients.producer.RoundRobinPartitioner": "roundrobin",
        "org.apache.kafka.clients.producer.UniformStickyPartitioner": "sticky",
    }
)
#: Why the proposal does not go with reading back.
_VERIFIES: Final = "verify reads back what brokers do not acknowledge, and there they do, by acks=1"
#: A signed int64, as all whole numbers of options.
_SEED_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """All options of one write; all sizes in bytes.

    ``message_size_max`` bounds one value in 0.7, and one record with all that belongs to it later.
    ``delivery`` is for brokers of 0.8 and later.
    """

    discovery: Discovery
    net: NetOptions
    topic: str | None
    partitioner: str
    compression: str
    compression_level: int | None
    acks: str
    batch_bytes: int
    message_size_max: int
    #: None where each task draws where its rows without keys go first.
    partitioner_seed: int | None = None
    delivery: DeliveryOptions = DeliveryOptions()
    #: None where rows may be doubled when a task or a batch is written again.
    transactions: TransactionOptions | None = None
    #: None where the generation's own is spoken.
    wire_format: WireFormat | None = None

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> WriteOptions:
        """Read and check all options of a write. Raises ``OptionError`` (fatal)."""
        options = RawOptions(raw, read=False)
        discovery = parse_discovery(options)
        net = parse_net(options, discovery)
        topic = options.get("topic")
        return cls(
            discovery=discovery,
            net=net,
            topic=topic.strip() if topic is not None else None,
            partitioner=_partitioner(options),
            partitioner_seed=options.count("partitionerSeed", 0, _SEED_MAX),
            **_PARSE[discovery.generation](options, net),
        )


def _parse_07(options: RawOptions, _: NetOptions) -> dict[str, Any]:
    compression, level = _compression_07(options)
    acks = options.choice("acks", "0", "1", "verify", default="1")
    contradictions = {"acks": _VERIFIES} if acks == "verify" else {}
    return {
        "compression": compression,
        "compression_level": level,
        "acks": acks,
        "wire_format": parse_wire_format(options, contradictions),
        "batch_bytes": options.size_or_default("batchBytes", 1),
        "message_size_max": options.size_or_default("max.message.size", 1),
    }


def _parse_modern(options: RawOptions, net: NetOptions) -> dict[str, Any]:
    compression, level = _compression(options)
    acks = options.choice(options.one_of("acks", "kafka.acks"), "0", "1", "all", "-1", default="all")
    # Kafka's own batch.size may be 0, which means one record each.
    batch_bytes = max(options.size_or_default(options.one_of("batchBytes", "kafka.batch.size"), 0), 1)
    options.flag("includeHeaders")  # of reads; Spark's connector takes it here, too
    delivery = parse_delivery(options, net, acks)
    return {
        "compression": compression,
        "compression_level": level,
        "acks": "all" if acks == "-1" else acks,
        "batch_bytes": min(batch_bytes, delivery.request_bytes_max),
        "message_size_max": delivery.request_bytes_max,
        "delivery": delivery,
        "transactions": parse_transactions(options, delivery),
    }


#: What the generations understand differently, as arguments of ``WriteOptions``.
_PARSE: Final[Mapping[Generation, Callable[[RawOptions, NetOptions], dict[str, Any]]]] = MappingProxyType(
    {Generation.V07: _parse_07, Generation.MODERN: _parse_modern}
)


def _compression_07(options: RawOptions) -> tuple[str, int | None]:
    """The compression of a write to 0.7 and its level."""
    compression = options.choice("compression", *COMPRESSIONS[Generation.V07])
    return compression, _level(options, compression, "compressionLevel")


def _compression(options: RawOptions) -> tuple[str, int | None]:
    """The compression of a write to 0.8 or later and its level."""
    name = options.one_of("compression", "kafka.compression.type")
    compression = options.choice(name, *COMPRESSIONS[Generation.MODERN])
    own = [LEVEL_OPTIONS[compression]] if compression in LEVEL_OPTIONS else []
    return compression, _level(options, compression, options.one_of("compressionLevel", *own))


def _level(options: RawOptions, compression: str, name: str) -> int | None:
    if not options.given(name):
        return None
    if compression not in LEVELS:
        raise OptionError(f"option {name} is not for compression={compression}; leave it out")
    return options.count(name, *LEVELS[compression])


def _partitioner(options: RawOptions) -> str:
    chosen, ignores_keys = _chosen_partitioner(options), options.flag("kafka.partitioner.ignore.keys")
    # As in Java: it is for the default partitioner, and means nothing to others.
    return "sticky" if chosen == "murmur2" and ignores_keys else chosen


def _chosen_partitioner(options: RawOptions) -> str:
    if options.one_of("partitioner", "kafka.partitioner.class") == "partitioner":
        return options.choice(
            "partitioner", "murmur2", "consistent", "consistent_random", "roundrobin", "sticky"
        )
    name = (options.get("kafka.partitioner.class") or "").strip()
    if name not in _PARTITIONER_CLASSES:
        raise OptionError(
            f"option kafka.partitioner.class: {quoted(name)} is Java, which is not run here; "
            "choose one of the option partitioner, or fill a column partition"
        )
    return _PARTITIONER_CLASSES[name]
