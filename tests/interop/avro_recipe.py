"""The recipe of ``docs/recipes.md`` that decodes Avro, in a Spark with the jar of Spark's own functions.

    python -m tests.interop.avro_recipe SERVERS JARS ANSWERS

A jar is only taken when a JVM starts, so this Spark is not the one that all tests share. The file of the
answers gets what Spark's function read and what ``fastavro`` read, each a list of objects.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame

from tests.support.local_spark import local_spark
from tests.support.pages import blocks, section_of

_PAGE: Final = "docs/recipes.md"
_SHOWN_SERVERS: Final = "127.0.0.1:9092"


def main(servers: str, jars: str, answers: Path) -> None:
    """Run the section from its top to its end."""
    spark = local_spark("the recipe of Avro", {"spark.jars": jars})
    section = section_of(_PAGE, "Avro with a registry")
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": spark}
    exec("from pyspark.sql import functions as F", namespace)
    for block in blocks("python"):
        if block.page == _PAGE and block.text in section:
            exec(block.text.replace(_SHOWN_SERVERS, servers), namespace)
    by_spark = namespace["read"].where("message IS NOT NULL").orderBy("offset").select("customer.*")
    answers.write_text(json.dumps([_rows(by_spark), _rows(namespace["read_in_python"])]))
    spark.stop()


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
