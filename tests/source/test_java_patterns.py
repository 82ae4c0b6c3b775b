"""Java itself, in Spark's process, judges patterns: a sample of what was recorded, and one pattern more."""

from __future__ import annotations

import json
import random
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from spark_kafkawire.options.java_pattern import JavaPattern
from spark_kafkawire.options.java_pattern.unicode_names import BLOCKS, SCRIPTS
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


def test_scripts_and_blocks_have_the_characters_of_ascii_that_they_have_in_java(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    ascii_ = "".join(map(chr, range(128)))
    known = {name for name in SCRIPTS | BLOCKS if not names_nothing(jvm, name)}
    assert len(known) > 800, "Java 17 knows 871 of them and of blocks"
    for name in known:
        prefix = "Is" if name in SCRIPTS else "In"
        left = jvm.java.util.regex.Pattern.compile(f"\\P{{{prefix}{name}}}").matcher(ascii_).replaceAll("")
        ours = JavaPattern(f"\\p{{{prefix}{name}}}")
        assert left == "".join(filter(ours.is_found_in, ascii_)), name


def names_nothing(jvm: Any, name: str) -> bool:
    """Whether this Java, which may be older, knows no script or block of that name."""
    kind = jvm.java.lang.Character.UnicodeScript if name in SCRIPTS else jvm.java.lang.Character.UnicodeBlock
    try:
        kind.forName(name)
    except IllegalArgumentException:
        return True
    return False


def test_each_script_and_block_of_java_is_known(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    assert {script.name() for script in jvm.java.lang.Character.UnicodeScript.values()} <= SCRIPTS
    kind = jvm.java.lang.Class.forName("java.lang.Character$UnicodeBlock")
    constants = {field.getName() for field in kind.getFields() if field.getType().equals(kind)}
    assert len(constants) > 300
    assert constants <= BLOCKS
