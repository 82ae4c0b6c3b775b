"""The page: complete, one file, and safe whatever the topics are called."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from spark_kafkawire.jobs.offsets.page import topics_table as offsets_table
from spark_kafkawire.jobs.offsets.page.document import page
from spark_kafkawire.jobs.offsets.report import PartitionReport
from spark_kafkawire.model import TopicPartition

from .reports import HOSTILE, partition_07, partition_modern, report_07, report_modern


class Reader(HTMLParser):
    """The content that a browser would see: elements with attributes, and the rows' texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attributes)))
        if name == "tr":
            self.rows.append([])
        if name in ("td", "th"):
            self.rows[-1].append("")
        if name not in ("meta", "input"):
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, data: str) -> None:
        if "tr" in self.open:
            self.rows[-1][-1] += data

    def named(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for element, attributes in self.elements if element == name]


def test_every_partition_is_a_row_below_its_topic() -> None:
    seen = Reader(
        page(
            report_07(
                partition_07("t", "0-0", 0, (0, 50), 100, 25),
                partition_07("t", "1-0", 500, (500,), 600, 400),
                partition_07("u", "0-0", 0, (), 0, None),
                groups=("g",),
            )
        )
    )
    assert not seen.open
    assert seen.rows[-6:] == [
        ["Topic", "Partitions", "Bytes", "Segments", "Lag of g"],
        ["t", "2", "200 B", "3", "175 B⚠"],
        ["0-0 on broker 0", "0 … 100", "100 B", "2", "75 Bat 25"],
        ["1-0 on broker 1", "500 … 600", "100 B", "1", "100 Bat 400100 B lost"],
        ["u", "1", "0 B", "0", "-"],
        ["0-0 on broker 0", "0 … 0", "0 B", "0", "-"],
    ]


def test_bars_are_as_long_as_logs_and_end_with_what_is_not_read() -> None:
    text = page(
        report_07(
            partition_07("t", "0-0", 0, (0,), 200, 50),
            partition_07("t", "0-1", 0, (0,), 50, 50),
            groups=("g",),
        )
    )
    rows = text[text.index('<table class="topics"') :].split("<tr")[3:]
    assert [re.findall(r'style="([^"]*)"', row) for row in rows] == [
        ["--w:100", "--w:100;--p:25"],
        ["--w:25", "--w:25;--p:100"],
    ]


def test_later_kafka_shows_records_and_their_times() -> None:
    seen = Reader(page(report_modern(partition_modern("t", 0, 5, 1205))))
    assert seen.rows[-1] == [
        "0 on broker 0",
        "5 … 1,205",
        "1,200",
        "2023-11-14 22:13:20Z",
        "2023-11-14 22:14:20Z",
    ]


def test_a_partition_that_nobody_serves_is_marked() -> None:
    text = page(
        report_07(PartitionReport(TopicPartition("t", 0, 7), None, None, committed=(3,)), groups=("g",))
    )
    assert "No broker serves 1 partition now." in text
    assert "no broker serves the partitions that it has offsets for" in text
    assert Reader(text).rows[-1] == ["7-0 no broker serves it", "-", "-", "-", "at 3"]


def test_a_card_tells_what_a_group_has_to_read_and_what_it_lost() -> None:
    partitions = [
        partition_07("t", "0-0", 100, (100,), 300, 50, None),
        partition_07("t", "0-1", 0, (0,), 100, 101, None),
    ]
    text = page(
        report_07(*partitions, partition_07("t", "0-2", 0, (0,), 900, None, None), groups=("g", "idle"))
    )
    card = text[text.index("<article>") : text.index("</article>")]
    for said in (
        "200 B",
        "33.3 % read",
        "2 partitions of 3",
        "50 B deleted before",
        "1 offset beyond the end",
    ):
        assert said in card
    assert "<bdi>idle</bdi></h3><p>has committed no offset here" in text


def test_hostile_names_make_no_element_and_no_attribute() -> None:
    partition = partition_07(HOSTILE, "0-0", 0, (0,), 9, 4)
    plain, hostile = (Reader(page(report_07(partition, groups=(name,)))) for name in ("g", HOSTILE))
    harmless = Reader(page(report_07(partition_07("t", "0-0", 0, (0,), 9, 4), groups=("g",))))
    names = [name for name, _ in harmless.elements]
    assert [name for name, _ in hostile.elements] == [name for name, _ in plain.elements] == names
    assert [sorted(values) for _, values in hostile.elements] == [
        sorted(values) for _, values in harmless.elements
    ]
    text = page(report_07(partition, groups=(HOSTILE,)))
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_page_loads_nothing_and_runs_its_own_script_only() -> None:
    text = page(report_07(partition_07("t", "0-0", 0, (0,), 9)))
    seen = Reader(text)
    [script] = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    [policy] = [meta["content"] for meta in seen.named("meta") if "http-equiv" in meta]
    assert policy is not None
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    loaded = {"src", "href", "srcset", "data", "action"} & {
        key for _, values in seen.elements for key in values
    }
    assert not loaded
    assert "url(" not in text
    assert "@import" not in text


def test_few_partitions_are_unfolded_and_many_are_folded() -> None:
    few = [
        partition_07("t", f"0-{partition}", 0, (0,), 9)
        for partition in range(offsets_table.PARTITIONS_UNFOLDED_MAX)
    ]
    assert Reader(page(report_07(*few))).named("tbody")[-1] == {}
    many = [*few, partition_07("u", "0-0", 0, (0,), 9)]
    assert Reader(page(report_07(*many))).named("tbody")[-1] == {"class": "folded"}


def test_the_partitions_of_too_large_a_cluster_are_left_out_with_a_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offsets_table, "PARTITIONS_LISTED_MAX", 3)
    partitions = [
        partition_07(topic, f"0-{partition}", 0, (0,), 9)
        for topic in ("a", "b", "c")
        for partition in range(2)
    ]
    text = page(report_07(*partitions))
    listed = [row[0] for row in Reader(text).rows[-5:]]
    assert listed == ["a", "0-0 on broker 0", "0-1 on broker 0", "b", "c"]
    assert "The partitions of 2 topics are left out" in text
