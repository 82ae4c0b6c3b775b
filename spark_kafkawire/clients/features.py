"""Columns that old brokers cannot store or return: told on the driver, before any row is sent or read."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Final, Literal

from ..errors import OptionError
from ..net.known_versions import KNOWN, Known
from ..net.settings import ConnectionSettings
from ..options import WriteOptions
from ..protocol.modern.floor import (
    FETCH_HEADERS_SINCE,
    FETCH_TIMES_SINCE,
    PRODUCE_HEADERS_SINCE,
    PRODUCE_TIMES_SINCE,
    VersionFloor,
)
from ..protocol.modern.old_brokers import OLD_RELEASES

_log = logging.getLogger("spark_kafkawire")

#: First versions of Fetch and Produce that know a column, for those that not all do.
_READ_SINCE: Final[Mapping[str, int]] = {
    "timestamp": FETCH_TIMES_SINCE,
    "timestampType": FETCH_TIMES_SINCE,
    "headers": FETCH_HEADERS_SINCE,
}
_WRITTEN_SINCE: Final[Mapping[str, int]] = {
    "timestamp": PRODUCE_TIMES_SINCE,
    "headers": PRODUCE_HEADERS_SINCE,
}
#: What becomes of columns that a broker does not store.
_UNSTORED: Final[Mapping[str, str]] = {
    "timestamp": "it is left out",
    "headers": "rows that have some are refused",
}


def warn_of_columns_read(names: Collection[str], connection: ConnectionSettings) -> None:
    """Warn of columns that the oldest broker of the cluster, as planning met it, does not give."""
    oldest = _oldest(connection, "fetch")
    if oldest and (missing := _missing(names, _READ_SINCE, oldest.floor.fetch)):
        types = ", and timestampType is -1" if "timestampType" in missing else ""
        _log.warning(
            "columns %s: %s is %s and has none: they are null%s",
            *(", ".join(missing), oldest.broker, oldest.kafka, types),
        )


def check_columns_written(names: Collection[str], options: WriteOptions) -> None:
    """Warn of columns that the oldest broker of the cluster, as far as one was met, does not store.

    Raises ``OptionError`` (fatal) where ``kafka.enable.idempotence=true`` asks it for what it has not.
    """
    oldest = _oldest(options.net.connection, "produce")
    if oldest is None:
        return
    for name in _missing(names, _WRITTEN_SINCE, oldest.floor.produce):
        _log.warning(
            "column %s: %s is %s and stores none: %s", name, oldest.broker, oldest.kafka, _UNSTORED[name]
        )
    if options.delivery.insists_on_idempotence and oldest.floor.produce < PRODUCE_HEADERS_SINCE:
        raise OptionError(
            f"option kafka.enable.idempotence: {oldest.broker} is {oldest.kafka}, and brokers before 0.11 "
            "have no idempotent producers; set it to false to write without"
        )


def _missing(names: Collection[str], since: Mapping[str, int], version: int) -> list[str]:
    return [name for name in since if name in names and version < since[name]]


def _oldest(connection: ConnectionSettings, api: Literal["fetch", "produce"]) -> Known | None:
    """The broker that offers least of an API; what the user says of all where that is not asked."""
    if connection.assumed_release is not None:
        versions = OLD_RELEASES[connection.assumed_release]
        return Known(connection.bootstrap_servers[0], VersionFloor.of(versions), versions.release)
    known = [each for each in KNOWN.of_cluster(connection) if getattr(each.floor, api) >= 0]
    return min(known, key=lambda each: int(getattr(each.floor, api)), default=None)
