"""A report of ``kafkawire offsets`` as one HTML page: bars of every partition's size and of each group's lag.

The page loads no other file, and is complete without scripts; they sort, fold and filter. Names come from the
cluster and may be hostile: ``markup`` escapes all text, and the page's policy allows only its own script and
no loading.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from collections.abc import Iterator

from spark_kafkawire.model import Broker

from ..report import ClusterReport, GroupTotal
from ..wording import WORDINGS, count_text, printable, size_text, time_text
from .markup import Markup, tag
from .topics_table import topics_table


def page(report: ClusterReport) -> str:
    """The page, as text of UTF-8."""
    title = f"{WORDINGS[report.generation].kafka} at {printable(report.place)}"
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
    wording = WORDINGS[report.generation]
    option, _, value = report.place.partition("=")
    yield tag("p", f"{wording.kafka} · {option} · {time_text(report.taken_ms)}", class_="when")
    yield tag("h1", tag("bdi", printable(value)))
    tiles = [
        (f"{len(report.brokers):,}", "brokers" if len(report.brokers) != 1 else "broker"),
        (f"{len(report.topics):,}", "topics" if len(report.topics) != 1 else "topic"),
        (f"{len(report.partitions):,}", "partitions" if len(report.partitions) != 1 else "partition"),
        (
            size_text(report.size, report.generation),
            wording.in_partitions,
        ),
    ]
    yield tag("ul", *(tag("li", tag("b", value), f" {name}") for value, name in tiles), class_="tiles")
    if unserved := sum(partition.bounds is None for partition in report.partitions):
        yield tag("p", f"No broker serves {count_text(unserved, 'partition')} now.", class_="warning")


def _groups(report: ClusterReport) -> Iterator[Markup]:
    if report.groups:
        cards = (_group_card(report, index) for index in range(len(report.groups)))
        yield tag("section", tag("h2", "Consumer groups"), tag("div", *cards, class_="cards"))


def _group_card(report: ClusterReport, index: int) -> Markup:
    total = report.group(index)
    if not total.partition_count:
        content = [tag("p", "has committed no offset here")]
    elif total.lag is None:
        content = [tag("p", "no broker serves the partitions that it has offsets for", class_="warning")]
    else:
        content = [*_group_lag(report, total.lag, total)]
    if unknown := len(report.unknown_of(index)):
        content += [
            tag("p", f"{count_text(unknown, 'offset')} in partitions that are not there", class_="warning")
        ]
    return tag("article", tag("h3", tag("bdi", printable(report.groups[index]))), *content)


def _group_lag(report: ClusterReport, lag: int, total: GroupTotal) -> Iterator[Markup]:
    generation = report.generation
    read = 100 * (total.size - lag) / total.size if total.size else 100.0
    text = f"{WORDINGS[generation].size} to read" if lag else "all is read"
    yield tag(
        "p", tag("b", size_text(lag, generation), class_="lag" if lag else ""), f" {text}", class_="big"
    )
    # A small rest stays visible.
    yield tag("i", class_="lagbar whole", style=f"--w:100;--p:{min(read, 99) if lag else 100:.4g}")
    logs = f"{count_text(total.partition_count, 'partition')} of {len(report.partitions):,} with an offset"
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
                tag("td", tag("bdi", printable(write.name))),
                tag("td", count_text(len(write.groups), "group"), class_="n"),
            )
            for write in report.writes
        )
        yield tag(
            "section",
            tag("h2", "Exactly-once writes"),
            tag("p", "Their groups keep records of the writes, and are not consumers."),
            tag("div", tag("table", tag("tbody", *rows), class_="brokers"), class_="card"),
        )


def _brokers(report: ClusterReport) -> Markup:
    sizes = {
        broker: [partition.size for partition in report.partitions_on(broker)] for broker in report.brokers
    }
    largest = max((sum(own) for own in sizes.values()), default=0) or 1
    rows = (_broker_row(report, broker, own, largest) for broker, own in sizes.items())
    return tag(
        "section",
        tag("h2", "Brokers"),
        tag("div", tag("table", tag("tbody", *rows), class_="brokers"), class_="card"),
    )


def _broker_row(report: ClusterReport, broker: Broker, sizes: list[int], largest: int) -> Markup:
    size = sum(sizes)
    bar = tag("i", class_="sizebar", style=f"--w:{100 * size / largest:.4g}") if size else ""
    return tag(
        "tr",
        tag("th", f"{broker.id}", scope="row"),
        tag("td", tag("bdi", printable(f"{broker.host}:{broker.port}"))),
        tag("td", count_text(len(sizes), "partition"), class_="n"),
        tag("td", bar, tag("span", size_text(size, report.generation)), class_="bar"),
    )
