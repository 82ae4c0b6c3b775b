"""All options of a write, for both generations, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..model import WireFormat
from .connection import Discovery, NetOptions, parse_discovery, parse_net, parse_wire_format
from .delivery import (
    DeliveryOptions,
    TransactionOptions,
    parse_acks,
    parse_compression,
    parse_delivery,
    parse_partitioner,
    parse_transactions,
)
from .option import V07, bad_value
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
            of = DeliveryOptions
            topic = options[of.topic]
            common: dict[str, Any] = {
                "discovery": discovery,
                "net": net,
                "topic": topic.strip() if topic is not None else None,
                "partitioner": parse_partitioner(options),
                "partitioner_seed": options[of.seed],
                "typed": parse_typed(options, net, read=False),
            }
            common["compression"], common["compression_level"] = parse_compression(
                options, discovery.generation
            )
            common["acks"] = acks = parse_acks(options, discovery.generation)
            if discovery.generation is V07:
                if not (batch_bytes := options[of.batch_bytes]):
                    raise bad_value(of.batch_bytes.name, "0", "a size above zero, like 65536 or 4MiB")
                contradictions = {of.acknowledged: _VERIFIES} if acks == "verify" else {}
                return cls(
                    **common,
                    wire_format=parse_wire_format(options, contradictions),
                    batch_bytes=batch_bytes,
                    message_size_max=options[of.message_size_max],
                )
            _ = options[NetOptions.include_headers]  # of reads; Spark's connector takes it here, too
            delivery = parse_delivery(options, net, acks)
            bytes_max = delivery.request_bytes_max
            return cls(
                **common,
                batch_bytes=min(max(options[of.batch_bytes], 1), bytes_max),
                message_size_max=bytes_max if options.given(of.request_bytes_max) else _RECORD_BYTES_MAX,
                delivery=delivery,
                transactions=parse_transactions(options, delivery),
            )
