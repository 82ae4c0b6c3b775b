"""Writes with delivery=exactly-once under a name that has been written: the same rows, or others."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, StringType, StructField, StructType
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import DeliveryError
from tests.support.cases import for_each
from tests.support.exactly_once import OnceWrite, committed, losing
from tests.support.noida import NoidaBroker

PARTITIONS: Final = 2
#: A row: its topic, key, value, headers, and partition.
Row = tuple[str, bytes | None, bytes, list[dict[str, Any]] | None, int | None]
Tasks = Sequence[Sequence[Row]]
SCHEMA: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField(
            "headers",
            ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        ),
        StructField("partition", IntegerType()),
    ]
)
HEADERS: Final = [{"key": "h", "value": b"1"}]
#: Of topics "a" and "b", "c" has no rows.
TASKS: Final[Tasks] = [
    [("a", b"k1", b"v1", HEADERS, 0), ("a", b"k2", b"v2", None, 1), ("b", None, b"v3", None, None)],
    [("b", b"k4", b"v4", None, 1), ("b", b"", b"v5", None, 1)],
    [],
]
[[R1, R2, R3], [R4, R5], _] = TASKS


class Names:
    """Topics of a test, and a name for its write."""

    def __init__(self, noida: NoidaBroker) -> None:
        self._servers = noida.bootstrap_servers
        self.topics = {letter: noida.create_topic(partitions=PARTITIONS) for letter in "abc"}
        self._name = f"again-{self.topics['a']}"

    def write(self, tasks: Tasks) -> OnceWrite:
        named = [[(self.topics[row[0]], *row[1:]) for row in task] for task in tasks]
        return OnceWrite(self._servers, "", named, {"kafka.transactional.id": self._name}, SCHEMA)

    def values(self) -> dict[str, list[bytes]]:
        return {letter: committed(self._servers, topic, PARTITIONS) for letter, topic in self.topics.items()}


@pytest.fixture
def written(noida: NoidaBroker) -> Iterator[Names]:
    """A write that is there, and still the same after the test."""
    names = Names(noida)
    names.write(TASKS).run()
    there = {"a": [b"v1", b"v2"], "b": [b"v3", b"v4", b"v5"], "c": []}
    assert names.values() == there
    yield names
    assert names.values() == there


@for_each(
    "tasks",
    [TASKS, [[R3, R2, R1], [R5, R4], []], [[R2, R3, R1], [R4, R5], []]],
    ids=["the same", "all orders turned", "another order"],
)
def test_the_same_rows_in_any_order_are_not_written_again(written: Names, tasks: Tasks) -> None:
    for _ in range(2):
        written.write(tasks).run()


CONTENT: Final = "with as many rows and bytes, but another content"


def changed(row: Row, **columns: Any) -> Row:
    """A row with other columns."""
    names = "topic", "key", "value", "headers", "partition"
    return tuple((dict(zip(names, row, strict=True)) | columns).values())


@for_each(
    ("first", "message"),
    [
        ([changed(R1, value=b"v9"), R2, R3], CONTENT),
        ([changed(R1, key=b"k9"), R2, R3], CONTENT),
        ([changed(R1, key=b"k2"), changed(R2, key=b"k1"), R3], CONTENT),
        ([changed(R1, value=b"v2"), changed(R2, value=b"v1"), R3], CONTENT),
        ([changed(R1, key=b"k1v", value=b"1"), R2, R3], CONTENT),
        ([changed(R1, headers=[{"key": "h", "value": b"2"}]), R2, R3], CONTENT),
        ([changed(R1, headers=[{"key": "i", "value": b"1"}]), R2, R3], CONTENT),
        ([changed(R1, headers=HEADERS * 2), R2, R3], CONTENT),
        ([changed(R1, headers=None), R2, R3], CONTENT),
        ([changed(R1, headers=None), changed(R2, headers=HEADERS), R3], CONTENT),
        ([changed(R1, partition=1), R2, R3], CONTENT),
        ([changed(R1, partition=1), changed(R2, partition=0), R3], CONTENT),
        ([changed(R1, partition=None), R2, R3], CONTENT),
        ([R1, R2, changed(R3, key=b"")], CONTENT),
        ([changed(R1, topic="b"), R2, changed(R3, topic="a")], CONTENT),
        ([changed(R1, topic="b"), R2, R3], CONTENT),
        ([R1, R2], "to topic '{b}' too, for which there are no rows now"),
        (
            [R1, R2, changed(R3, topic="c")],
            "to topic '{b}', and not to topic '{c}', for which there are rows now",
        ),
        (
            [R1, changed(R2, topic="c"), R3],
            "not to topic '{c}', for which there are rows now, or that was deleted and made again since",
        ),
        ([R2, R3], "with 3 row(s) of 10 bytes, and now the task has 2 row(s) of 6 bytes"),
        ([R1, R2, R3, R3], "with 3 row(s) of 10 bytes, and now the task has 4 row(s) of 12 bytes"),
    ],
)
def test_other_rows_under_the_same_name_are_an_error_that_says_which(
    written: Names, first: Sequence[Row], message: str
) -> None:
    with pytest.raises(DeliveryError) as error:
        written.write([first, *TASKS[1:]]).run()
    assert message.format(**written.topics) in str(error.value)
    assert "these are other rows, or partitioned otherwise; give another write another" in str(error.value)
    assert str(error.value).isprintable()


def test_of_a_name_only_the_last_batch_counts_also_in_other_topics(noida: NoidaBroker) -> None:
    """The group of a task has records of earlier batches in the topics of those."""
    one, other = (noida.create_topic(partitions=PARTITIONS) for _ in range(2))
    options = {"kafka.transactional.id": f"batches-{one}"}
    for topic, batch in ((one, "x"), (other, "y"), (other, "x"), (other, "x")):
        rows = [[(batch.encode(), 0)], [(batch.encode(), 1)]]
        OnceWrite(noida.bootstrap_servers, topic, rows, {**options, "batch": batch}).run()
    assert committed(noida.bootstrap_servers, one, PARTITIONS) == [b"x"] * 2
    assert committed(noida.bootstrap_servers, other, PARTITIONS) == [b"x"] * 2 + [b"y"] * 2


def test_a_topic_of_another_id_is_an_error_that_names_it(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers may keep the offsets of a deleted topic for a while. This one has no ids."""
    names, ids = Names(noida), dict.fromkeys("abc", uuid.UUID(int=1))
    letters = {topic: letter for letter, topic in names.topics.items()}
    monkeypatch.setattr(Metadata, "id_of", lambda _, topic: ids[letters[topic]])
    names.write(TASKS).run()
    names.write(TASKS).run()
    ids["a"] = uuid.UUID(int=2)
    deleted = f"in topic '{names.topics['a']}' of other ids, which were deleted and made again since"
    with pytest.raises(DeliveryError, match=deleted):
        names.write(TASKS).run()
    assert len(names.values()["b"]) == 3


def test_what_was_lost_of_a_write_is_written_again_and_no_other_rows(noida: NoidaBroker) -> None:
    names = Names(noida)
    write = names.write(TASKS)
    made = write.writer()
    messages = [write.message(made, number) for number in range(3)]
    with losing(messages[1].transaction), pytest.raises(DeliveryError, match="1 of 2 transactions could not"):
        made.commit(messages)
    assert names.values()["a"] == [b"v1", b"v2"]
    with pytest.raises(DeliveryError, match=CONTENT):
        names.write([[changed(R1, value=b"v9"), R2, R3], *TASKS[1:]]).run()
    for _ in range(2):
        names.write(TASKS).run()
        assert names.values() == {"a": [b"v1", b"v2"], "b": [b"v3", b"v4", b"v5"], "c": []}
