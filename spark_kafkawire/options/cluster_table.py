"""Options of a read of a table of the cluster, such as ``partitions``, or of log directories, such as
``batches``, in place of records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..errors import OptionError
from ..net.retry import RetryPolicy
from . import connect, directories, discovery, login_options, security
from .connect import NetOptions, parse_net
from .directories import PATH, PATHS
from .discovery import Discovery, parse_discovery
from .fetch import FetchOptions
from .offsets import PARTITION_SYNTAX
from .raw import RawOptions
from .read import TaskOptions
from .selection import (
    ASSIGN,
    DIRECTORY_TABLES,
    SUBSCRIBE,
    SUBSCRIBE_PATTERN,
    TABLE,
    Selection,
    parse_selection,
)
from .splitting import GROUP_ID, PLANNING_BACKOFF, PLANNING_RETRIES, parse_planning_retry
from .table import OPTIONS, declared, raw_options

#: Options that choose rows of a table. Each table takes some of them.
FILTERS: Final = (SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN, GROUP_ID)
#: Options of every table: the cluster or the directories, connections and logins, and retries.
_OF_EVERY_TABLE: Final = frozenset(
    (
        TABLE,
        PLANNING_RETRIES,
        PLANNING_BACKOFF,
        *declared(discovery, directories, connect, security, login_options),
    )
) - {connect.INCLUDE_HEADERS, connect.WIRE_FORMAT}


@dataclass(frozen=True, slots=True)
class TableOptions:
    """All options of a read of a table. ``filters`` are the names of the options that choose rows, as
    given."""

    table: str
    discovery: Discovery
    net: NetOptions
    planning_retry: RetryPolicy
    selection: Selection | None = None
    group_id: str | None = None
    filters: tuple[str, ...] = ()

    @property
    def of_cluster(self) -> TaskOptions:
        """The options with which ``cluster.cluster_of`` finds the cluster."""
        return TaskOptions(self.discovery, self.net, FetchOptions(), self.planning_retry)

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> TableOptions:
        """Read and check the options. Raises ``OptionError`` (fatal), also for options of records."""
        with raw_options(raw, read=True) as options:
            table = options[TABLE]
            assert table is not None
            of_records = [each for each in OPTIONS if each not in _OF_EVERY_TABLE and each not in FILTERS]
            if given := options.given(*of_records):
                raise OptionError(f"option {given[0]} has no meaning with table={table}; leave it out")
            _check_place(table, options)
            found = parse_discovery(options)
            net = parse_net(options, found)
            chooses = options.given(SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN)
            return cls(
                table=table,
                discovery=found,
                net=net,
                planning_retry=parse_planning_retry(options, net.retry),
                selection=parse_selection(options, PARTITION_SYNTAX[found.generation]) if chooses else None,
                group_id=options[GROUP_ID],
                filters=tuple(options.given(*FILTERS)),
            )

    def check_filters(self, taken: tuple[str, ...]) -> None:
        """Raise ``OptionError`` (fatal) for an option that chooses rows of other tables than this one."""
        for name in self.filters:
            if name not in taken:
                raise OptionError(f"option {name} has no meaning with table={self.table}; leave it out")


def _check_place(table: str, options: RawOptions) -> None:
    """Raise ``OptionError`` (fatal) for a table of a cluster with a path, or one of directories without. It
    is checked before anything below the path is read."""
    paths = options.given(PATH, PATHS)
    if table in DIRECTORY_TABLES and not paths:
        raise OptionError(
            f"option table={table} reads log directories, and no path is set: give their path to load()"
        )
    if table not in DIRECTORY_TABLES and paths:
        tables = " and ".join(DIRECTORY_TABLES)
        raise OptionError(
            f"option table={table} is of a cluster, and {paths[0]} is read without brokers: leave {paths[0]} "
            f"out, or choose a table of log directories: {tables}"
        )
