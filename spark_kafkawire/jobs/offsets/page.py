"""A report of ``kafkawire offsets`` as one HTML page: bars of every partition's size and of each
group's lag.

The page loads no other file, and is complete without scripts; they sort, fold and filter. Names come
from the cluster and may be hostile: ``tag`` escapes all text and attribute values, and the page's
policy allows only its own script and no loading.

    tag("td", "<b>", tag("i", style="--w:50"), class_="bar")
    # <td class="bar">&lt;b&gt;<i style="--w:50"></i></td>
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Final

from spark_kafkawire.errors import plural
from spark_kafkawire.model import Broker
from spark_kafkawire.tables import Row

from .report import (
    NONE_TEXT,
    ClusterReport,
    GroupTotal,
    count_text,
    number_text,
    printable,
    size_text,
    time_text,
)

#: Elements that have no content and no end.
_VOID: Final = frozenset(("input", "meta"))


class Markup(str):
    """Text that is HTML already. Only ``tag``, ``join_markup`` and this package's own files make it."""

    __slots__ = ()


def tag(name: str, /, *content: str, **attributes: str | int) -> Markup:
    """An element. ``content`` is escaped unless it is ``Markup``.

    ``class_`` becomes ``class``, and ``data_v`` becomes ``data-v``. An attribute that is an empty text
    is left out.
    """
    inside = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value != ""
    )
    if name in _VOID:
        return Markup(f"<{name}{inside}>")
    return Markup(f"<{name}{inside}>{join_markup(*content)}</{name}>")


def join_markup(*content: str) -> Markup:
    """Elements and texts one after the other."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in content))


#: Most partitions that a page lists; browsers sort and scroll this many without delay. All topics are listed.
PARTITIONS_LISTED_MAX: Final = 20_000
#: Partitions that are listed without a click.
PARTITIONS_UNFOLDED_MAX: Final = 40
#: Partitions of one topic that its row draws.
STRIP_PARTITIONS_MAX: Final = 120
#: Height of a drawing, in its own units.
_STRIP_HEIGHT: Final = 20
#: The smallest visible part of a bar, percent.
_SEEN_PERCENT: Final = 3.0


def topics_table(report: ClusterReport) -> Markup:
    """The section with the table and its tools."""
    table = _Table(report)
    # A column for each group: the more, the shorter their bars. A hundredth of the longest bar.
    bar_rem = max(0.04, 0.16 / (1 + len(report.groups)))
    head = tag("thead", tag("tr", *(_column_head(title, kind) for title, kind in table.columns())))
    bodies, unlisted = _bodies(table, report.topics)
    topics = count_text(unlisted, "topic")
    note = f"The partitions of {topics} are left out to keep the page usable; --json has them all."
    return tag(
        "section",
        tag("h2", "Topics"),
        _tools(report),
        *([_key()] if report.groups else []),
        tag(
            "div",
            tag("table", head, *bodies, class_="topics", id="topics", style=f"--bar:{bar_rem:.3g}rem"),
            class_="card",
        ),
        *([tag("p", note, class_="note")] if unlisted else []),
    )


def _bodies(table: _Table, topics: Iterable[Row]) -> tuple[list[Markup], int]:
    """The rows of each topic, and how many topics have their partitions left out."""
    bodies, unlisted, left = [], 0, PARTITIONS_LISTED_MAX
    for topic in topics:
        is_listed = len(topic["logs"]) <= left
        left -= len(topic["logs"]) if is_listed else 0
        unlisted += not is_listed
        bodies.append(table.body(topic, is_listed=is_listed))
    return bodies, unlisted


def _tools(report: ClusterReport) -> Markup:
    search = tag("input", type="search", id="filter", placeholder="Find a topic", aria_label="Find a topic")
    lagging = tag("label", tag("input", type="checkbox", id="lagging"), " with lag only")
    return tag(
        "div",
        search,
        *([lagging] if report.groups else []),
        tag("button", "Unfold all", type="button", id="unfold"),
        tag("button", "Fold all", type="button", id="fold"),
        tag("output", "", id="shown"),
        class_="tools",
    )


def _key() -> Markup:
    meanings = (("size", "in the log"), ("rest", "not read yet"), ("past", "read"))
    parts = (join_markup(tag("i", class_=name), meaning) for name, meaning in meanings)
    return tag("p", "Bars of topics have one scale, those of partitions another.", *parts, class_="key")


def _column_head(title: str, kind: str) -> Markup:
    return tag("th", tag("button", tag("bdi", printable(title)), type="button"), scope="col", class_=kind)


@dataclass(frozen=True)
class _Table:
    """Totals that all rows need."""

    report: ClusterReport

    @cached_property
    def largest_partition(self) -> int:
        return _largest(row[self.report.wording.size] for row in self.report.logs)

    @cached_property
    def largest_topic(self) -> int:
        return _largest(row[self.report.wording.size] for row in self.report.topics)

    def columns(self) -> Iterator[tuple[str, str]]:
        """Each column's title and class."""
        yield "Topic", "name"
        yield "Partitions", "offsets"
        yield self.report.wording.size.capitalize(), "bar"
        for title, _ in self.report.wording.more.values():
            yield title.capitalize(), "n"
        for group in self.report.groups:
            yield f"Lag of {group}", "bar lag"

    def body(self, topic: Row, *, is_listed: bool) -> Markup:
        """A topic's rows: its own, then those of its partitions."""
        is_folded = len(self.report.logs) > PARTITIONS_UNFOLDED_MAX or not is_listed
        return tag(
            "tbody",
            self._topic_row(topic),
            *(map(self._partition_row, topic["logs"]) if is_listed else ()),
            class_="folded" if is_folded else "",
        )

    def _topic_row(self, topic: Row) -> Markup:
        name = tag("button", tag("bdi", printable(topic["topic"])), type="button", class_="fold")
        logs = topic["logs"]
        strip = _strip(logs, self.report.wording.size)
        return tag(
            "tr",
            tag("th", name, scope="row", data_v=printable(topic["topic"])),
            tag("td", strip, tag("span", number_text(len(logs))), class_="offsets", data_v=len(logs)),
            *self._value_cells(topic, self.largest_topic),
            *(self._topic_lag_cell(logs, group) for group in self.report.groups),
            class_="topic",
        )

    def _partition_row(self, row: Row) -> Markup:
        partition, is_served = self.report.partition_of(row), row["earliest"] is not None
        leader = tag("small", f"on broker {row['broker']}") if is_served else _notes(["no broker serves it"])
        bounds = f"{row['earliest']:,} … {row['latest']:,}" if is_served else NONE_TEXT
        order = (partition.broker or 0) * 2**32 + partition.partition
        return tag(
            "tr",
            tag("th", partition.name, " ", leader, scope="row", data_v=order),
            tag("td", bounds, class_="offsets", data_v=row["latest"] if is_served else -1),
            *self._value_cells(row, self.largest_partition),
            *(self._lag_cell(row, group) for group in self.report.groups),
            class_="log",
        )

    def _value_cells(self, row: Row, largest: int) -> Iterator[Markup]:
        size = row[self.report.wording.size]
        yield tag("td", *_size(self.report, size, largest), class_="bar", data_v=size or 0)
        for name, (_, text) in self.report.wording.more.items():
            value = row[name]
            yield tag("td", text(value), class_="n", data_v=-1 if value is None else value)

    def _topic_lag_cell(self, logs: Sequence[Row], group: str) -> Markup:
        total = GroupTotal.of(logs, group)
        if total.lag is None:
            return tag("td", NONE_TEXT, class_="none", data_v=-1)
        notes = [f"{size_text(total.lost, self.report.generation)} lost"] if total.lost else []
        notes += [f"{count_text(total.beyond_count, 'offset')} beyond the end"] if total.beyond_count else []
        notes += [f"{len(logs) - total.partition_count:,} of {len(logs):,} without offset"]
        is_odd = bool(total.lost or total.beyond_count)
        sign = tag("span", "⚠", class_="warning", title=", ".join(notes)) if is_odd else join_markup()
        return self._bar_of_lag(total.lag, total.size, self.largest_topic, sign)

    def _lag_cell(self, row: Row, group: str) -> Markup:
        position, total = row["groups"][group], GroupTotal.of([row], group)
        if position["offset"] is None:
            return tag("td", NONE_TEXT, class_="none", data_v=-1)
        location = tag("small", f"at {position['offset']:,}")
        if total.lag is None:
            return tag("td", location, class_="none", data_v=-1)
        lost = [f"{size_text(total.lost, self.report.generation)} lost"] if total.lost else []
        beyond = ["beyond the end"] if total.beyond_count else []
        below = join_markup(location, _notes([*lost, *beyond]))
        return self._bar_of_lag(total.lag, total.size, self.largest_partition, below)

    def _bar_of_lag(self, lag: int, size: int, largest: int, below: Markup) -> Markup:
        """A bar that shows the size of the partition. The end of the bar shows the lag."""
        read = 100 * (size - lag) / size if size else 100.0
        read = min(read, 100 - _SEEN_PERCENT) if lag else read
        style = f"--w:{100 * size / largest:.4g};--p:{read:.4g}"
        text = tag("span", size_text(lag, self.report.generation), class_="" if lag else "done")
        bar = tag("i", class_="lagbar", style=style) if size else ""
        return tag("td", bar, text, below, class_="bar", data_v=lag)


def _notes(texts: list[str]) -> Markup:
    return join_markup(*(tag("small", text, class_="warning") for text in texts))


def _largest(sizes: Iterable[int | None]) -> int:
    return max((size or 0 for size in sizes), default=0) or 1


def _size(report: ClusterReport, size: int | None, largest: int) -> tuple[Markup | str, Markup]:
    """A bar with its text."""
    bar = tag("i", class_="sizebar", style=f"--w:{100 * size / largest:.4g}") if size else ""
    return bar, tag("span", size_text(size, report.generation))


def _strip(logs: Sequence[Row], size_name: str) -> Markup:
    """A column for each partition, as high as its size, with the lag of the slowest group on top."""
    logs = logs[:STRIP_PARTITIONS_MAX]
    largest = _largest(row[size_name] for row in logs)
    read, unread = [], []
    for location, row in enumerate(logs):
        size = row[size_name] or 0
        lag = max((position["lag"] or 0 for position in row.get("groups", {}).values()), default=0)
        top, middle = (_STRIP_HEIGHT * (1 - height / largest) for height in (size, size - lag))
        read.append(f"M{location} {_STRIP_HEIGHT}V{middle:.3g}h.8V{_STRIP_HEIGHT}z")
        if lag:
            unread.append(f"M{location} {middle:.3g}V{top:.3g}h.8V{middle:.3g}z")
    return tag(
        "svg",
        tag("path", class_="read", d="".join(read)),
        tag("path", class_="unread", d="".join(unread)),
        viewBox=f"0 0 {len(logs)} {_STRIP_HEIGHT}",
        preserveAspectRatio="none",
        style=f"--n:{len(logs)}",
        aria_hidden="true",
    )


def page(report: ClusterReport) -> str:
    """The page, as text of UTF-8."""
    title = f"{report.wording.kafka} at {printable(report.place)}"
    script = _asset("page.js")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", _asset("page.css")),
        tag("noscript", tag("style", Markup(".folded .log{display:table-row}.tools{display:none}"))),
    )
    body = tag(
        "body",
        tag("header", *_heading(report)),
        tag("main", *_groups(report), *_writes(report), _brokers(report), topics_table(report)),
        tag("script", script),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _asset(name: str) -> Markup:
    """A file beside this module, also where the package is a zip."""
    return Markup(importlib.resources.files(__package__).joinpath(name).read_text("utf-8"))


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _heading(report: ClusterReport) -> Iterator[Markup]:
    option, _, value = report.place.partition("=")
    yield tag("p", f"{report.wording.kafka} · {option} · {time_text(report.taken_ms)}", class_="when")
    yield tag("h1", tag("bdi", printable(value)))
    tiles = [
        (f"{len(report.brokers):,}", plural(len(report.brokers), "broker")),
        (f"{len(report.topics):,}", plural(len(report.topics), "topic")),
        (f"{len(report.logs):,}", plural(len(report.logs), "partition")),
        (size_text(report.size, report.generation), report.wording.in_partitions),
    ]
    yield tag("ul", *(tag("li", tag("b", value), f" {name}") for value, name in tiles), class_="tiles")
    if unserved := sum(row["earliest"] is None for row in report.logs):
        yield tag("p", f"No broker serves {count_text(unserved, 'partition')} now.", class_="warning")


def _groups(report: ClusterReport) -> Iterator[Markup]:
    if report.groups:
        cards = (_group_card(report, group) for group in report.groups)
        yield tag("section", tag("h2", "Consumer groups"), tag("div", *cards, class_="cards"))


def _group_card(report: ClusterReport, group: str) -> Markup:
    total = report.group(group)
    if not total.partition_count:
        content = [tag("p", "has committed no offset here")]
    elif total.lag is None:
        content = [tag("p", "no broker serves the partitions that it has offsets for", class_="warning")]
    else:
        content = [*_group_lag(report, total.lag, total)]
    if unknown := len(report.unknown_of(group)):
        content += [
            tag("p", f"{count_text(unknown, 'offset')} in partitions that are not there", class_="warning")
        ]
    return tag("article", tag("h3", tag("bdi", printable(group))), *content)


def _group_lag(report: ClusterReport, lag: int, total: GroupTotal) -> Iterator[Markup]:
    generation = report.generation
    read = 100 * (total.size - lag) / total.size if total.size else 100.0
    text = f"{report.wording.size} to read" if lag else "all is read"
    yield tag(
        "p", tag("b", size_text(lag, generation), class_="lag" if lag else ""), f" {text}", class_="big"
    )
    # A small rest stays visible.
    yield tag("i", class_="lagbar whole", style=f"--w:100;--p:{min(read, 99) if lag else 100:.4g}")
    logs = f"{count_text(total.partition_count, 'partition')} of {len(report.logs):,} with an offset"
    yield tag("p", f"{read:.1f} % read · {logs}")
    if total.lost:
        yield tag("p", f"{size_text(total.lost, generation)} deleted before they were read", class_="warning")
    if total.beyond_count:
        where = count_text(total.beyond_count, "offset")
        yield tag("p", f"{where} beyond the end of the log", class_="warning")


def _writes(report: ClusterReport) -> Iterator[Markup]:
    if report.writes:
        rows = (
            tag(
                "tr",
                tag("td", tag("bdi", printable(name))),
                tag("td", count_text(len(groups), "group"), class_="n"),
            )
            for name, groups in report.writes.items()
        )
        yield tag(
            "section",
            tag("h2", "Exactly-once writes"),
            tag("p", "Their groups keep records of the writes, and are not consumers."),
            tag("div", tag("table", tag("tbody", *rows), class_="brokers"), class_="card"),
        )


def _brokers(report: ClusterReport) -> Markup:
    sizes: dict[int, list[int]] = {broker.id: [] for broker in report.brokers}
    for row in report.logs:
        if row["earliest"] is not None and row["broker"] in sizes:
            sizes[row["broker"]].append(row[report.wording.size])
    largest = _largest(map(sum, sizes.values()))
    rows = (_broker_row(report, broker, sizes[broker.id], largest) for broker in report.brokers)
    return tag(
        "section",
        tag("h2", "Brokers"),
        tag("div", tag("table", tag("tbody", *rows), class_="brokers"), class_="card"),
    )


def _broker_row(report: ClusterReport, broker: Broker, sizes: list[int], largest: int) -> Markup:
    return tag(
        "tr",
        tag("th", f"{broker.id}", scope="row"),
        tag("td", tag("bdi", printable(f"{broker.host}:{broker.port}"))),
        tag("td", count_text(len(sizes), "partition"), class_="n"),
        tag("td", *_size(report, sum(sizes), largest), class_="bar"),
    )
