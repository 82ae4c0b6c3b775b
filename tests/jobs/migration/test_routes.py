"""Targets of partitions, also when a later run finds more of them."""

from __future__ import annotations

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.migration.routes import parse_names, partition_counts, routes_of
from spark_kafkawire.model import TopicPartition


def partitions(topic: str, *names: str) -> list[TopicPartition]:
    """``0-1`` is partition 1 on broker 0."""
    pairs = [name.split("-") for name in names]
    return [TopicPartition(topic, int(partition), int(broker)) for broker, partition in pairs]


def shown(routes: object) -> list[str]:
    return [f"{route.source} -> {route.target}" for route in routes]  # type: ignore[attr-defined]


def test_logs_become_partitions_in_the_order_of_brokers() -> None:
    routes = routes_of(partitions("t", "10-0", "2-1", "2-0"), {}, {})
    assert shown(routes) == ["t 2-0 -> t 0", "t 2-1 -> t 1", "t 10-0 -> t 2"]
    assert partition_counts(routes) == {"t": 3}


def test_topics_that_go_to_one_topic_share_no_partition() -> None:
    routes = routes_of([*partitions("b", "0-0"), *partitions("a", "0-0", "0-1")], {"a": "x", "b": "x"}, {})
    assert shown(routes) == ["a 0-0 -> x 0", "a 0-1 -> x 1", "b 0-0 -> x 2"]


def test_a_partition_that_a_later_run_finds_gets_the_next_number() -> None:
    first = routes_of(partitions("t", "1-0", "1-1"), {}, {})
    known = {route.source: route.target for route in first}
    second = routes_of(partitions("t", "0-0", "1-0", "1-1"), {}, known)
    assert shown(second) == ["t 0-0 -> t 2", "t 1-0 -> t 0", "t 1-1 -> t 1"]


def test_a_partition_cannot_change_its_target() -> None:
    [partition] = partitions("t", "0-0")
    with pytest.raises(OptionError, match="t 0-0 is copied to t 0 already"):
        routes_of([partition], {"t": "new"}, {partition: TopicPartition("t", 0)})


def test_names_of_other_topics_are_refused() -> None:
    with pytest.raises(OptionError, match="'other' is not among the topics"):
        routes_of(partitions("t", "0-0"), {"other": "x"}, {})


def test_names_are_pairs() -> None:
    assert parse_names(["a=b", " c = d "]) == {"a": "b", "c": "d"}


@pytest.mark.parametrize("pairs", [["a"], ["=b"], ["a="], ["a=b", "a=c"]])
def test_wrong_names_are_refused_in_one_line(pairs: list[str]) -> None:
    with pytest.raises(OptionError, match=r"^argument --map: 'a?=?b?' (is not OLD=NEW|appears twice)$"):
        parse_names(pairs)
