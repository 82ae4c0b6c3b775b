"""All tables by name, and reads of those of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from ..errors import OptionError, UnsupportedVersionError
from ..options.cluster_table import TableOptions
from .batches import BATCHES
from .brokers import BROKERS
from .configs import CONFIGS
from .group_offsets import OFFSETS_TABLE
from .groups import GROUPS_TABLE, MEMBERS_TABLE
from .scan import Scan
from .segments import SEGMENTS
from .table import Table
from .topics import PARTITIONS_TABLE, TOPICS_TABLE
from .transactions import PRODUCERS, TRANSACTIONS

CATALOGUE: Final[Mapping[str, Table]] = MappingProxyType(
    {
        table.name: table
        for table in (
            BROKERS,
            TOPICS_TABLE,
            PARTITIONS_TABLE,
            GROUPS_TABLE,
            MEMBERS_TABLE,
            OFFSETS_TABLE,
            CONFIGS,
            TRANSACTIONS,
            PRODUCERS,
            SEGMENTS,
            BATCHES,
        )
    }
)


def table_of(options: TableOptions) -> Table:
    """The table of the options. Raises ``OptionError`` (fatal) for an option that chooses rows of other
    tables, and for a table that these brokers do not have."""
    table, generation = CATALOGUE[options.table], options.discovery.generation
    options.check_filters(table.takes)
    if options.discovery.directories is None and table.rows.get(generation) is None:
        there = ", ".join(each.name for each in CATALOGUE.values() if each.rows.get(generation))
        raise OptionError(
            f"option table={table.name}: {generation.title} has no such table; there are {there}"
        )
    return table


def read_table(options: TableOptions, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a table now, with columns of ``schema``, which are some of the table's.

    Sends only the requests that these columns need. Raises as ``table_of`` does, ``BrokerError`` (fatal) that
    names the ACL if the user lacks a right, and the errors of ``Cluster``.
    """
    table = table_of(options)
    scan = Scan(options, frozenset(schema.names))
    try:
        rows = list(table.rows[options.discovery.generation](scan))
    except UnsupportedVersionError as error:
        raise error.located(f"table {table.name}") from error
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
