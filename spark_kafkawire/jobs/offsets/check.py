"""Problems that ``--check`` reports: offsets of groups outside of their partitions. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from spark_kafkawire.errors import quoted

from .report import ClusterReport, Standing
from .wording import count_text, size_text

#: Text of a check for each state of an offset.
_COMPLAINTS: Final[Mapping[Standing, str]] = MappingProxyType(
    {
        Standing.UNKNOWN: "in partitions that no broker serves now",
        Standing.BEHIND: "before the start of the log",
        Standing.BEYOND: "beyond the end of the log",
    }
)


def complaints(report: ClusterReport) -> list[str]:
    """A line for each problem of a group; no lines if all offsets are in their partitions."""
    return [line for index in range(len(report.groups)) for line in _of_group(report, index)]


def _of_group(report: ClusterReport, index: int) -> Iterator[str]:
    group, total = f"group {quoted(report.groups[index])}", report.group(index)
    unknown = [each.topic_partition for each in report.unknown_of(index)]
    if not unknown and not total.partition_count:
        yield f"{group} has committed no offset here"
    if unknown:
        yield (
            f"{group}: {count_text(len(unknown), 'offset')} in partitions that no broker holds, "
            f"{unknown[0]} first"
        )
    for standing, what in _COMPLAINTS.items():
        partitions = [
            partition.topic_partition
            for partition in report.partitions
            if partition.positions[index].standing is standing
        ]
        lost = f" ({size_text(total.lost, report.generation)} lost)" if standing is Standing.BEHIND else ""
        if partitions:
            yield f"{group}: {count_text(len(partitions), 'offset')} {what}{lost}, {partitions[0]} first"
