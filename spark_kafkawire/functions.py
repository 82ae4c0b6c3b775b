"""Functions for columns and DataFrames, besides ``format("kafkawire")``.

from spark_kafkawire.functions import dead_letters, from_avro, to_avro
"""

from __future__ import annotations

from .source.functions import dead_letters, from_avro, to_avro

__all__ = ["dead_letters", "from_avro", "to_avro"]
