"""Columns that old brokers of modern Kafka (0.8 to 0.10) cannot store or return.

The driver checks the columns of a read or write against the oldest known broker, before any row is read or
sent: headers and timestamps came with later versions of Fetch and Produce.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal

from ..errors import LOG, OptionError
from ..net.known_versions import BROKER_VERSIONS, KnownBroker
from ..net.settings import ConnectionSettings
from ..options import WriteOptions
from ..protocol.modern.minimum_versions import (
    FETCH_HEADERS_SINCE,
    FETCH_TIMES_SINCE,
    PRODUCE_HEADERS_SINCE,
    PRODUCE_TIMES_SINCE,
    MinimumVersions,
)
from ..protocol.modern.negotiation import OLD_RELEASES

#: First versions of Fetch and Produce that support a column, if not all do.
_READ_SINCE: Final[Mapping[str, int]] = {
    "timestamp": FETCH_TIMES_SINCE,
    "timestampType": FETCH_TIMES_SINCE,
    "headers": FETCH_HEADERS_SINCE,
}
_WRITTEN_SINCE: Final[Mapping[str, int]] = {
    "timestamp": PRODUCE_TIMES_SINCE,
    "headers": PRODUCE_HEADERS_SINCE,
}
#: Effects on columns that a broker does not store.
_UNSTORED: Final[Mapping[str, str]] = {
    "timestamp": "it is left out",
    "headers": "rows that have some are refused",
}


def warn_of_columns_read(names: Collection[str], connection: ConnectionSettings) -> None:
    """Warn about columns that the oldest known broker of the cluster does not return."""
    oldest = _oldest(connection, "fetch")
    if oldest and (missing := _describe_missing(names, _READ_SINCE, oldest.offered.fetch)):
        types = ", and timestampType is -1" if "timestampType" in missing else ""
        LOG.warning(
            "columns %s: %s is %s and has none: they are null%s",
            *(", ".join(missing), oldest.broker, oldest.kafka, types),
        )


def check_columns_written(names: Collection[str], options: WriteOptions) -> None:
    """Warn about columns that the oldest known broker of the cluster does not store.

    Raises ``OptionError`` (fatal) if ``kafka.enable.idempotence=true`` and it has no idempotent producers.
    """
    oldest = _oldest(options.net.connection, "produce")
    if oldest is None:
        return
    for name in _describe_missing(names, _WRITTEN_SINCE, oldest.offered.produce):
        LOG.warning(
            "column %s: %s is %s and stores none: %s", name, oldest.broker, oldest.kafka, _UNSTORED[name]
        )
    if options.delivery.insists_on_idempotence and oldest.offered.produce < PRODUCE_HEADERS_SINCE:
        raise OptionError(
            f"option kafka.enable.idempotence: {oldest.broker} is {oldest.kafka}, and brokers before 0.11 "
            "have no idempotent producers; set it to false, to write with duplicates after retries"
        )


def _describe_missing(names: Collection[str], since: Mapping[str, int], version: int) -> list[str]:
    return [name for name in since if name in names and version < since[name]]


def _oldest(connection: ConnectionSettings, api: Literal["fetch", "produce"]) -> KnownBroker | None:
    """The broker with the lowest version of an API, or the release that an option names."""
    if connection.assumed_release is not None:
        versions = OLD_RELEASES[connection.assumed_release]
        return KnownBroker(connection.bootstrap_servers[0], MinimumVersions.of(versions), versions.release)
    known = [item for item in BROKER_VERSIONS.of_cluster(connection) if getattr(item.offered, api) >= 0]
    return min(known, key=lambda item: int(getattr(item.offered, api)), default=None)
