"""Options of a write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import OptionError
from .connect import parse_discovery, parse_net
from .raw import RawOptions
from .values import DeliveryOptions, Discovery, NetOptions


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """All options of one write; all sizes in bytes."""

    discovery: Discovery
    net: NetOptions
    topic: str | None
    compression: str
    compression_level: int | None
    acks: str
    batch_bytes: int
    message_size_max: int
    partitioner: str = "murmur2"
    delivery: DeliveryOptions = DeliveryOptions()

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> WriteOptions:
        """Read and check all options of a write. Raises ``OptionError`` (fatal)."""
        options = RawOptions(raw, read=False)
        discovery = parse_discovery(options)
        compression = options.choice("compression", "none", "gzip", "snappy")
        level = options.count("compressionLevel", 1, 9)
        if level is not None and compression != "gzip":
            raise OptionError(
                f"option compressionLevel is for compression=gzip, not for {compression}; leave it out"
            )
        topic = options.get("topic")
        return cls(
            discovery=discovery,
            net=parse_net(options, discovery.dialect),
            topic=topic.strip() if topic is not None else None,
            compression=compression,
            compression_level=level,
            acks=options.choice("acks", "0", "1", "verify"),
            batch_bytes=options.size_or_default("batchBytes", 1),
            message_size_max=options.size_or_default("max.message.size", 1),
        )
