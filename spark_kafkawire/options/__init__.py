"""Options of reads and writes, for both generations: option strings become frozen values only here.

Option names are case-insensitive, as Spark's are; sizes take a unit (``4MiB``), and so do times
(``30s``; a bare number is milliseconds). Every error names the option, its value, and the allowed values.
``OPTIONS`` is the table of all options.
"""

from .connection import Directories, Discovery, ExpectedBrokers, NetOptions, is_node_name
from .delivery import COMPRESSIONS, DeliveryOptions, TransactionOptions
from .fetch import FetchOptions
from .key_order import KeyOrder, PartitionerCheck, TopicLayouts
from .option import Option
from .read import ReadOptions, StreamOptions, TableOptions, TaskOptions, read_options_of
from .selection import (
    COMMITTED,
    EARLIEST,
    LATEST,
    LimitKind,
    OffsetLimit,
    OffsetLimits,
    Selection,
    chooses_table,
)
from .stream import GroupMembershipOptions, StreamLimits
from .table import OPTIONS, STREAM_OPTIONS, drop_other_side, reading_options
from .typed import BadRecords, ColumnFormat, SchemaVersion, TypedOptions
from .write import WriteOptions

__all__ = [
    "COMMITTED", "COMPRESSIONS", "EARLIEST", "LATEST", "OPTIONS", "STREAM_OPTIONS", "BadRecords",
    "ColumnFormat", "DeliveryOptions", "Directories", "Discovery", "ExpectedBrokers", "FetchOptions",
    "GroupMembershipOptions", "KeyOrder", "LimitKind", "NetOptions", "OffsetLimit", "OffsetLimits", "Option",
    "PartitionerCheck", "ReadOptions", "SchemaVersion", "Selection", "StreamLimits", "StreamOptions",
    "TableOptions", "TaskOptions", "TopicLayouts", "TransactionOptions", "TypedOptions", "WriteOptions",
    "chooses_table", "drop_other_side", "is_node_name", "read_options_of", "reading_options",
]  # fmt: skip
