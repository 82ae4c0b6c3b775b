"""The report at the end of a migration run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TextIO

from spark_kafkawire.errors import DeliveryError, plural

from ..shell.aligned import aligned
from ..shell.summary import print_summary

#: Digits of a checksum that a table shows.
_CHECKSUM_DIGITS: Final = 12


def report(summary: Mapping[str, Any], stream: TextIO, *, as_json: bool) -> dict[str, Any]:
    """The summary that is still to be printed: its partitions are printed here unless ``as_json``.

    Raises ``DeliveryError`` (fatal) where the verification has failed; all is printed then.
    """
    rest = dict(summary)
    if not as_json:
        partitions = rest.pop("partitions")
        for line in aligned([[each["source"], "->", each["target"], *_cells(each)] for each in partitions]):
            print(line, file=stream)
        rest = {key: value for key, value in rest.items() if value not in ([], {})}
    try:
        check(summary)
    except DeliveryError:
        print_summary(rest, as_json=as_json)
        raise
    return rest


def check(summary: Mapping[str, Any]) -> None:
    """Raise ``DeliveryError`` (fatal) where the verification of a run has failed."""
    partitions = summary["partitions"]
    failed = [each for each in partitions if each.get("equal") is False]
    if failed:
        first = failed[0]
        theirs = {"messages": first["target_messages"], "sha256": first["target_sha256"]}
        raise DeliveryError(
            f"verification failed for {len(failed)} of {len(partitions)} partitions: {first['source']} has "
            f"{_content(first)}, {first['target']} has {_content(theirs)}; copy to a new topic with an empty "
            "state directory"
        )


def _content(side: Mapping[str, Any]) -> str:
    count = side["messages"]
    return f"{count:,} {plural(count, 'message')} (sha256 {side['sha256'][:_CHECKSUM_DIGITS]})"


def _cells(each: Mapping[str, Any]) -> list[str]:
    if "equal" not in each:
        return [f"{each['start_offset']} to {each['stop_offset']}", f"{each['bytes']:,} bytes"]
    gone = each.get("deleted_since", 0)
    equal = f"equal except for {gone:,} that the source has deleted since" if gone else "equal"
    verdict = equal if each["equal"] else f"NOT EQUAL to {each['target_messages']:,} there"
    return [
        f"{each['messages']:,} {plural(each['messages'], 'message')}",
        f"sha256 {each['sha256'][:_CHECKSUM_DIGITS]}",
        verdict,
    ]
