"""Java itself, in Spark's process, judges patterns: a sample of what was recorded, and one pattern more."""

from __future__ import annotations

import json
import random
from typing import Any

from pyspark.sql import SparkSession

from spark_kafkawire.options.java_pattern import JavaPattern
from tests.options.java_patterns.record import FOUND, NAMES

SAMPLE_COUNT = 60


def test_java_finds_what_was_recorded(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    recorded = json.loads(FOUND.read_text("ascii"))["found"]
    read = sorted(pattern for pattern, line in recorded.items() if line != "E")
    plain = [index for index, name in enumerate(NAMES) if name.isascii()]
    for pattern in random.Random(1).sample(read, SAMPLE_COUNT):
        compiled = jvm.java.util.regex.Pattern.compile(pattern)
        for index in random.Random(pattern).sample(plain, 12):
            assert compiled.matcher(NAMES[index]).find() == (recorded[pattern][index] == "1"), pattern


def test_the_class_that_python_reads_otherwise_is_as_in_java(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    compiled = jvm.java.util.regex.Pattern.compile("^[A-Z&&[^Y]]$")
    for name in ("A", "X", "Y", "Z", "&", "A]", "Y]"):
        assert compiled.matcher(name).find() == JavaPattern("^[A-Z&&[^Y]]$").is_found_in(name)
