"""The checkpoint's JSON: Spark's own connector's, key by key, and 0.7's form of it."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import Generation, TopicPartition
from spark_kafkawire.options.offsets import PARTITION_SYNTAX
from spark_kafkawire.planner.stream_offsets import ID_MARK, UNPINNED, from_json, ids_from_json, to_json
from tests.support.cases import for_each

MODERN, V07 = PARTITION_SYNTAX[Generation.MODERN], PARTITION_SYNTAX[Generation.V07]
#: What Spark's own connector wrote.
TEXTS: list[str] = json.loads(
    (Path(__file__).parents[1] / "golden/spark-kafka-4.2.0/offsets.json").read_text("utf-8")
)


def text_of(offsets: dict[TopicPartition, int]) -> str:
    return json.dumps(to_json(offsets), separators=(",", ":"), ensure_ascii=False)


@for_each("text", TEXTS, ids=range(len(TEXTS)))
def test_offsets_are_written_as_sparks_connector_writes_them(text: str) -> None:
    assert text_of(from_json(json.loads(text), MODERN)) == text


def test_some_recorded_texts_are_in_no_order_of_their_names() -> None:
    assert sum(list(json.loads(text)) != sorted(json.loads(text)) for text in TEXTS) >= 5


@pytest.mark.parametrize("names", [("orders", "returns"), ("events", "users"), ("events", "views")])
def test_topics_at_one_place_of_scalas_table_go_by_their_signed_hashes(names: tuple[str, str]) -> None:
    """As the ``mutable.HashMap`` of Spark 4.3's Scala has them, whichever is put in first."""
    assert list(to_json({TopicPartition(name, 0): 1 for name in names})) == list(names)


def test_offsets_of_07_name_broker_and_partition_in_their_order() -> None:
    partitions = {TopicPartition("t", partition, broker): 7 for broker in (0, 2, 10) for partition in (1, 0)}
    written = '{"t":{"0-0":7,"0-1":7,"2-0":7,"2-1":7,"10-0":7,"10-1":7}}'
    assert text_of(partitions) == written
    assert from_json(json.loads(written), V07) == partitions


PARTITIONS = st.dictionaries(
    st.builds(TopicPartition, st.text("tö-9._😀", min_size=1, max_size=12), st.integers(0, 10**6), st.none()),
    st.integers(0, (1 << 63) - 1),
    max_size=40,
)


@given(PARTITIONS, st.randoms())
def test_offsets_come_back_and_their_order_depends_on_names_alone(
    offsets: dict[TopicPartition, int], random: Any
) -> None:
    text = text_of(offsets)
    shuffled = list(offsets.items())
    random.shuffle(shuffled)
    assert text_of(dict(shuffled)) == text
    assert from_json(json.loads(text), MODERN) == offsets
    assert json.loads(text_of(dict.fromkeys(offsets, 0))).keys() == json.loads(text).keys()


@for_each(
    "written",
    [
        None,
        [],
        "latest",
        5,
        {"t": 5},
        {"t": {"0": "5"}},
        {"t": {"0": True}},
        {"t": {"0": 1.5}},
        {"t": {"0": -2}},
        {"t": {"00": 5}},
        {"t": {"x": 5}},
        {"t": {"0": 1 << 63}},
        {"offset": {"0": None}},
    ],
)
def test_a_checkpoint_of_another_source_is_told(written: Any) -> None:
    with pytest.raises(
        OptionError, match=r"^checkpointLocation: .* the checkpoint belongs to another source$"
    ):
        from_json(written, MODERN, unpinned=True)


@pytest.mark.parametrize(
    ("written", "syntax", "name"), [({"t": {"0-1": 5}}, MODERN, "0-1"), ({"t": {"1": 5}}, V07, "1")]
)
def test_a_checkpoint_of_the_other_dialect_is_told(written: Any, syntax: Any, name: str) -> None:
    with pytest.raises(OptionError, match=re.escape(f"of partition '{name}'") + r".*another kind of Kafka"):
        from_json(written, syntax)


def test_only_a_first_start_may_be_unpinned() -> None:
    unpinned = {TopicPartition("t", 0): UNPINNED}
    assert from_json(to_json(unpinned), MODERN, unpinned=True) == unpinned
    with pytest.raises(OptionError, match="checkpointLocation"):
        from_json(to_json(unpinned), MODERN)


def test_ids_of_topics_follow_the_offsets_and_are_no_partitions() -> None:
    ids = {"t": uuid.UUID(int=7), "a": uuid.UUID(bytes=b"\xff" * 16)}
    offsets = {TopicPartition("t", 0): 5, TopicPartition("a", 0): 6}
    written = to_json(offsets, None, ids)
    assert list(written)[-2:] == [
        "topic id kept by kafkawire: a _____________________w",
        "topic id kept by kafkawire: t AAAAAAAAAAAAAAAAAAAABw",
    ]
    assert from_json(written, MODERN) == offsets
    assert ids_from_json(json.loads(json.dumps(written))) == ids
    assert ids_from_json({"t": {"0": 5}}) == {}


@pytest.mark.parametrize(
    "damaged", ["t", "t AAAA", "t !AAAAAAAAAAAAAAAAAAABw", "t AAAAAAAAAAAAAAAAAAAABw=x", ""]
)
def test_a_damaged_id_is_an_error(damaged: str) -> None:
    with pytest.raises(OptionError, match=r"^checkpointLocation: .* holds no topic id"):
        ids_from_json({"t": {"0": 5}, f"{ID_MARK}{damaged}": {}})
