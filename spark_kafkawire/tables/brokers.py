"""The table ``brokers``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..cluster.modern.admin import BrokerDisk, broker_disks
from ..errors import UnsupportedVersionError
from ..model import Broker, Generation
from ..protocol.modern.metadata import MetadataRequest, MetadataResponse
from .scan import Scan, needs
from .table import INT, LONG, TEXT, Column, Row, Table

#: The advice of an error about a column that needs more rights than its table.
RIGHT_OF_SIZES: Final = "Describe on Cluster; or leave the column {} out with .schema(...)"
_SIZES: Final = ("bytes", "totalBytes", "usableBytes")


def _rows(scan: Scan) -> Iterator[Row]:
    response: MetadataResponse = scan.metadata.ask(
        MetadataRequest(topics=(), allow_auto_topic_creation=False)
    )
    brokers = {Broker(each.node_id, each.host, each.port): each.rack for each in response.brokers}
    disks = disks_of(scan, list(brokers)) if scan.wants(*_SIZES) else {}
    for broker, rack in sorted(brokers.items()):
        disk = disks.get(broker)
        yield {
            "broker": broker.id,
            "host": broker.host,
            "port": broker.port,
            "rack": rack,
            "bytes": sum(disk.replica_bytes.values()) if disk else None,
            "totalBytes": disk.total_bytes if disk else None,
            "usableBytes": disk.usable_bytes if disk else None,
        }


def disks_of(scan: Scan, brokers: list[Broker], column: str = "bytes") -> dict[Broker, BrokerDisk]:
    """The log directories of brokers; empty if they are too old to describe them (before 2.0)."""
    selected = scan.options.selection is not None
    with needs(RIGHT_OF_SIZES.format(column)):
        try:
            return broker_disks(brokers, scan.net, scan.led if selected else None)
        except UnsupportedVersionError:
            return {}


def _rows_07(scan: Scan) -> Iterator[Row]:
    for broker in scan.cluster.brokers():
        names = ("rack", *_SIZES)
        yield {"broker": broker.id, "host": broker.host, "port": broker.port, **dict.fromkeys(names)}


BROKERS: Final = Table(
    "brokers",
    "Live brokers.",
    (
        Column("broker", INT, "id"),
        Column("host", TEXT, "host that the broker advertises to clients"),
        Column("port", INT, "port that the broker advertises to clients"),
        Column("rack", TEXT, "rack; null without one"),
        Column("bytes", LONG, "size of all replicas on the broker; null before Kafka 2.0"),
        Column("totalBytes", LONG, "size of the volumes of the log directories; null before Kafka 3.3"),
        Column("usableBytes", LONG, "free space of these volumes; null before Kafka 3.3"),
    ),
    {Generation.MODERN: _rows, Generation.V07: _rows_07},
)
