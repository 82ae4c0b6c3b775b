"""Option strings become frozen values here, and nowhere else.

Option names are case-insensitive, as Spark's are; sizes take a unit (``4MiB``), and so do times
(``30s``; a bare number is milliseconds). Every error names the option, its value, and what it may
be. ``OPTIONS`` is the table of them all.
"""

from .compression import COMPRESSIONS
from .key_order import KeyOrder, PartitionerCheck
from .option import Option
from .partition_epochs import TopicEpochs
from .raw import reading_options
from .read import ReadOptions
from .sides import of_side
from .stream import StreamOptions, read_options_of
from .stream_table import STREAM_OPTIONS
from .table import OPTIONS
from .values import (
    COMMITTED,
    EARLIEST,
    LATEST,
    DeliveryOptions,
    Discovery,
    ExpectedBrokers,
    FetchOptions,
    GroupMembership,
    LimitKind,
    NetOptions,
    OffsetLimit,
    OffsetLimits,
    Selection,
    StreamLimits,
    TransactionOptions,
    is_node_name,
)
from .write import WriteOptions

__all__ = [
    "COMMITTED",
    "COMPRESSIONS",
    "EARLIEST",
    "LATEST",
    "OPTIONS",
    "STREAM_OPTIONS",
    "DeliveryOptions",
    "Discovery",
    "ExpectedBrokers",
    "FetchOptions",
    "GroupMembership",
    "KeyOrder",
    "LimitKind",
    "NetOptions",
    "OffsetLimit",
    "OffsetLimits",
    "Option",
    "PartitionerCheck",
    "ReadOptions",
    "Selection",
    "StreamLimits",
    "StreamOptions",
    "TopicEpochs",
    "TransactionOptions",
    "WriteOptions",
    "is_node_name",
    "of_side",
    "read_options_of",
    "reading_options",
]
