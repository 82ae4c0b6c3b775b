"""The report at the end of a run of ``publish``."""

from __future__ import annotations

from typing import Any, TextIO

from spark_kafkawire.errors import DeliveryError, plural

from ..shell.aligned import aligned
from ..shell.summary import print_summary
from .run import Published
from .written import summary_of, table_of


def report(published: Published, stream: TextIO, *, as_json: bool) -> dict[str, Any]:
    """The summary that is still to be printed: its partitions are printed here unless ``as_json``.

    Raises ``DeliveryError`` (fatal) where rows are in a topic too often; all is printed then.
    """
    if not as_json and published.written:
        print(*aligned(table_of(published.written)), sep="\n", file=stream, flush=True)
    summary = summary_of(published.written, with_partitions=as_json)
    if published.found_count is None:
        return summary
    summary["messages_found"] = published.found_count
    if published.doubled_count is None:
        return summary
    summary["messages_doubled"] = published.doubled_count
    if published.doubled_count and not published.was_done:
        print_summary(summary, as_json=as_json)
        are = plural(published.doubled_count, "message is", "messages are")
        raise DeliveryError(
            f"{published.doubled_count:,} {are} in the topic more often than the rows are: another producer "
            "wrote equal ones, or a killed run was still writing; remove the duplicates where the "
            "topic is read, Kafka takes nothing back"
        )
    return summary
