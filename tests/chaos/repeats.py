"""Named exactly-once writes that are run again, as they were or changed: no row twice, none passed over.

A write has rows for some topics. The second one has the same rows, perhaps in another order, and changes
nothing; or one thing is changed, mostly without a change of counts and sizes, and it must end in an error.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from spark_kafkawire.errors import DeliveryError
from spark_kafkawire.source.schema import HEADERS_FIELD
from tests.support.exactly_once import OnceWrite, committed
from tests.support.noida import NoidaBroker

from .operation import EXACT

#: Name of the outcome of other rows, which end in an error.
REFUSED: Final = "refused"
_PARTITIONS: Final = 2
_TOPICS: Final = 3
_SCHEMA: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        HEADERS_FIELD,
        StructField("partition", IntegerType()),
    ]
)
_COLUMNS: Final = {name: number for number, name in enumerate(_SCHEMA.names)}
_FIXED: Final = 8
#: Writes to the same topics, which are read once.
_TOGETHER: Final = 12

#: A row: topic, key, value, headers, partition.
Row = tuple[Any, ...]
Tasks = list[list[Row]]


def operation(noida: NoidaBroker, seed: int, number: int) -> Counter[str]:
    """Writes to the same topics, each twice, and how they ended. Raises ``AssertionError``."""
    topics = [noida.create_topic(_PARTITIONS) for _ in range(_TOPICS)]
    outcomes, rows = Counter[str](), list[Row]()
    for place in range(_TOGETHER):
        outcomes[_repeat(noida, topics, f"{seed} repeats {number} {place}", rows)] += 1
    for topic in topics:
        expected = sorted(row[_COLUMNS["value"]] for row in rows if row[0] == topic)
        found = committed(noida.bootstrap_servers, topic, _PARTITIONS)
        assert found == expected, f"{len(found)} rows, not {len(expected)}, or others"
    return outcomes


def _repeat(noida: NoidaBroker, topics: Sequence[str], seed: str, rows: list[Row]) -> str:
    """The outcome of a write and the next one of its name; the rows that have to be there are added to
    ``rows``."""
    chance = random.Random(seed)
    tasks = [[_row(chance, topics) for _ in range(chance.choice((0, 1, 5)))] for _ in range(3)]
    how = chance.choice(("same", "same", *_CHANGES))
    again = [chance.sample(task, len(task)) for task in tasks]
    if how != "same":
        _CHANGES[how](chance, again, topics)
    is_same = all(
        sorted(map(repr, before)) == sorted(map(repr, now)) for before, now in zip(tasks, again, strict=True)
    )
    name = {"kafka.transactional.id": f"repeat-{topics[0]}-{seed}"}
    OnceWrite(noida.bootstrap_servers, "", tasks, name, _SCHEMA).run()
    failure = None
    try:
        OnceWrite(noida.bootstrap_servers, "", again, name, _SCHEMA).run()
    except DeliveryError as error:
        failure = str(error)
    # Nothing is kept of a write without rows.
    rows += itertools.chain(*(tasks if any(tasks) else again))
    if is_same or not any(tasks):
        assert failure is None, f"{how}: the same rows are refused: {failure}"
        return EXACT
    assert failure is not None, f"{how}: no error"
    return REFUSED


def _row(chance: random.Random, topics: Sequence[str]) -> Row:
    headers = [{"key": "h", "value": chance.randbytes(2)}] if chance.random() < 0.3 else None
    key = chance.randbytes(_FIXED) if chance.random() < 0.7 else None
    return chance.choice(topics), key, chance.randbytes(_FIXED), headers, chance.choice((None, 0, 1))


def _changed(column: str, value: Callable[[random.Random], Any]) -> Callable[..., None]:
    """Change a column of one row."""

    def change(chance: random.Random, tasks: Tasks, _topics: Sequence[str]) -> None:
        if busy := [task for task in tasks if task]:
            task, at = chance.choice(busy), _COLUMNS[column]
            number = chance.randrange(len(task))
            task[number] = (*task[number][:at], value(chance), *task[number][at + 1 :])

    return change


def _exchanged(column: str) -> Callable[..., None]:
    """Exchange a column of two rows of a task."""

    def exchange(chance: random.Random, tasks: Tasks, _topics: Sequence[str]) -> None:
        if large := [task for task in tasks if len(task) > 1]:
            task, at = chance.choice(large), _COLUMNS[column]
            one, other = chance.sample(range(len(task)), 2)
            first, second = task[one], task[other]
            task[one] = (*first[:at], second[at], *first[at + 1 :])
            task[other] = (*second[:at], first[at], *second[at + 1 :])

    return exchange


def _moved(_chance: random.Random, tasks: Tasks, topics: Sequence[str]) -> None:
    """Exchange the topics of all rows in a circle."""
    after = dict(zip(topics, [*topics[1:], topics[0]], strict=True))
    for task in tasks:
        task[:] = [(after[row[0]], *row[1:]) for row in task]


def _another(chance: random.Random, tasks: Tasks, topics: Sequence[str]) -> None:
    chance.choice(tasks).append(_row(chance, topics))


def _fewer(chance: random.Random, tasks: Tasks, _topics: Sequence[str]) -> None:
    if busy := [task for task in tasks if task]:
        chance.choice(busy).pop()


_CHANGES: Final[dict[str, Callable[..., None]]] = {
    "another value": _changed("value", lambda chance: chance.randbytes(_FIXED)),
    "another key": _changed("key", lambda chance: chance.randbytes(_FIXED)),
    "other headers": _changed("headers", lambda chance: [{"key": "h", "value": chance.randbytes(2)}]),
    "another partition": _changed("partition", lambda chance: chance.choice((None, 0, 1))),
    **{f"{column} exchanged": _exchanged(column) for column in _COLUMNS},
    "other topics": _moved,
    "one row more": _another,
    "one row less": _fewer,
}
