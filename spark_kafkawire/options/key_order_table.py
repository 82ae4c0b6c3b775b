"""The options of a read in the order of its keys: rows of the table of all."""

from __future__ import annotations

from typing import Final

from ..model import Generation
from .option import read

KEY_ORDER_OPTIONS: Final = (
    read(
        "keyOrder",
        "false",
        "`true`: all records of a key in the order in which they were produced, also where partitions were "
        "added; see [Key order](key-order.md)",
    ),
    read(
        "partitionEpochs",
        None,
        'for `keyOrder`: `{"t":[{"partitions":2},{"partitions":4,"boundaries":{"0":70,"1":65}}]}`, how many '
        "partitions there were, and where the old ones stood when some were added; in 0.7 partitions by "
        'broker, `{"partitions":{"0":2}}`',
    ),
    read(
        "expansionTimestamp",
        None,
        "for `keyOrder`, instead of boundaries: when partitions were added, milliseconds since 1970; several "
        "as `a,b`; a batch read finds the counts, too, where there is no `partitionEpochs`",
        Generation.MODERN,
    ),
    read(
        "verifyPartitioner",
        "strict",
        "for `keyOrder`: a key in a partition where murmur2 never put it is an error; `true`: a column "
        "`stray` tells of it; `false`: keys are not looked at",
        Generation.MODERN,
    ),
)
