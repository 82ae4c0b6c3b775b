"""Functions for columns and DataFrames, besides ``format("kafkawire")``.

from spark_kafkawire.functions import dead_letters, from_avro, from_protobuf, header, to_avro, to_protobuf
"""

from __future__ import annotations

from .source.functions import dead_letters, from_avro, from_protobuf, header, to_avro, to_protobuf

__all__ = ["dead_letters", "from_avro", "from_protobuf", "header", "to_avro", "to_protobuf"]
