"""All options of a write, for both generations, as one frozen value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ..model import Generation, WireFormat
from .connection import INCLUDE_HEADERS, Discovery, NetOptions, parse_discovery, parse_net, parse_wire_format
from .delivery import (
    ACKS,
    BATCH_BYTES,
    MESSAGE_SIZE,
    PARTITIONER_SEED,
    REQUEST_BYTES,
    TOPIC,
    DeliveryOptions,
    TransactionOptions,
    parse_acks,
    parse_compression,
    parse_delivery,
    parse_partitioner,
    parse_transactions,
)
from .option import RawOptions, bad_value
from .table import raw_options
from .typed import TypedOptions, parse_typed

#: Why the proposal does not go with reading back.
_VERIFIES: Final = "verify reads back what brokers do not acknowledge, and there they do, by acks=1"
#: Largest record where the options do not say, bytes: that of Kafka's own max.request.size. Requests are
#: smaller by default, for Azure Event Hubs closes connections on those above 1,046,528 bytes.
_RECORD_BYTES_MAX: Final = 1 << 20


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
    #: None if each task draws the first partition of its rows without keys.
    partitioner_seed: int | None = None
    delivery: DeliveryOptions = DeliveryOptions()
    #: None if rows may be duplicated when a task or a batch is written again.
    transactions: TransactionOptions | None = None
    #: None for the generation's own format.
    wire_format: WireFormat | None = None
    #: None if keys and values are binary.
    typed: TypedOptions | None = None

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> WriteOptions:
        """Read and check all options of a write. Raises ``OptionError`` (fatal)."""
        with raw_options(raw, read=False) as options:
            discovery = parse_discovery(options)
            net = parse_net(options, discovery)
            topic = options[TOPIC]
            return cls(
                discovery=discovery,
                net=net,
                topic=topic.strip() if topic is not None else None,
                partitioner=parse_partitioner(options),
                partitioner_seed=options[PARTITIONER_SEED],
                typed=parse_typed(options, net, read=False),
                **_PARSE[discovery.generation](options, net),
            )


def _parse_07(options: RawOptions, _: NetOptions) -> dict[str, Any]:
    compression, level = parse_compression(options, Generation.V07)
    acks = parse_acks(options, Generation.V07)
    batch_bytes = options[BATCH_BYTES]
    if not batch_bytes:
        raise bad_value(BATCH_BYTES.name, "0", "a size above zero, like 65536 or 4MiB")
    return {
        "compression": compression,
        "compression_level": level,
        "acks": acks,
        "wire_format": parse_wire_format(options, {ACKS: _VERIFIES} if acks == "verify" else {}),
        "batch_bytes": batch_bytes,
        "message_size_max": options[MESSAGE_SIZE],
    }


def _parse_modern(options: RawOptions, net: NetOptions) -> dict[str, Any]:
    compression, level = parse_compression(options, Generation.MODERN)
    acks = parse_acks(options, Generation.MODERN)
    _ = options[INCLUDE_HEADERS]  # of reads; Spark's connector takes it here, too
    delivery = parse_delivery(options, net, acks)
    size_max = delivery.request_bytes_max if options.given(REQUEST_BYTES) else _RECORD_BYTES_MAX
    return {
        "compression": compression,
        "compression_level": level,
        "acks": acks,
        "batch_bytes": min(max(options[BATCH_BYTES], 1), delivery.request_bytes_max),
        "message_size_max": size_max,
        "delivery": delivery,
        "transactions": parse_transactions(options, delivery),
    }


#: Options with different meanings in the generations, as arguments of ``WriteOptions``.
_PARSE: Final[Mapping[Generation, Callable[[RawOptions, NetOptions], dict[str, Any]]]] = MappingProxyType(
    {Generation.V07: _parse_07, Generation.MODERN: _parse_modern}
)
