"""How far each batch of a stream goes, as Spark before 4.2 asks for it: without telling where it starts."""

from __future__ import annotations

from collections.abc import Sequence

import pyspark
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from ..errors import OptionError
from ..options import StreamOptions
from ..planner.stream_offsets import to_json
from .stream_reader import JsonOffsets, KafkaWireStreamReader


class UnlimitedStreamReader(KafkaWireStreamReader):
    """Ends each batch where the logs end. Raises ``OptionError`` (fatal) for options that ask for less: after
    a restart Spark does not say from where."""

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        if options.limits.size_max is not None or options.limits.size_min is not None:
            raise OptionError(
                "maxOffsetsPerTrigger, minOffsetsPerTrigger and maxBytesPerTrigger need Spark 4.2 or later, "
                f"and this is {pyspark.__version__}: leave them out, and each batch reads all there is"
            )
        if options.read.membership is not None:
            raise OptionError(
                "groupMembership=join needs Spark 4.2 or later, which tells where a query stands, and this "
                f"is {pyspark.__version__}"
            )
        super().__init__(options, schema)
        #: Where the query stands, as far as Spark has told: not before the first batch after a restart. What
        #: has gone since then is found when that is planned, and its offsets may be told in another order,
        #: which Spark takes for news: that batch is empty.
        self._stands: JsonOffsets | None = None

    def initialOffset(self) -> JsonOffsets:
        """Where a new query starts. Spark asks again after the end of the first batch is known."""
        initial = super().initialOffset()
        if self._stands is None:
            self._stands = initial
        return initial

    # pyspark's types are those of its newest version.
    def latestOffset(self) -> JsonOffsets:  # type: ignore[override]
        """Where the logs end."""
        begins = self._from_json(self._stands or {})
        ends = self._planner.next(begins, limited=False)
        if self._stands is None or ends != begins:
            self._stands = to_json(ends, begins)
        return self._stands

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        """One Spark partition for each planned range between the two."""
        self._stands = end
        return super().partitions(start, end)
