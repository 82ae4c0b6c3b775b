"""Java itself, in Spark's process, judges patterns: a sample of what was recorded, and new ones."""

from __future__ import annotations

import random
from typing import Any

from pyspark.sql import SparkSession

from spark_kafkawire.options.java_pattern import JavaPattern, PatternError
from tests.options.java_patterns.record import NAMES, random_patterns

SAMPLE_COUNT = 60


def test_java_picks_the_same_names_by_new_patterns(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    plain = [name for name in NAMES if name.isascii()]
    for pattern in random_patterns(seed=2, count=SAMPLE_COUNT):
        try:
            ours = JavaPattern(pattern)
        except PatternError:
            continue
        compiled = jvm.java.util.regex.Pattern.compile(pattern)
        for name in random.Random(pattern).sample(plain, 12):
            assert compiled.matcher(name).find() == ours.is_found_in(name), pattern
