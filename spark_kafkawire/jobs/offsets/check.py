"""What a check complains of: offsets of groups that are not in their logs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from ...errors import quoted
from .report import ClusterReport, Standing
from .wording import count_text, size_text

#: What a check says of offsets that stand so.
_COMPLAINTS: Final[Mapping[Standing, str]] = MappingProxyType(
    {
        Standing.UNKNOWN: "in logs that no broker serves now",
        Standing.BEHIND: "before the start of the log",
        Standing.BEYOND: "beyond the end of the log",
    }
)


def complaints(report: ClusterReport) -> list[str]:
    """A line for each thing that is wrong with a group; none where the offsets of all are in their logs."""
    return [line for index in range(len(report.groups)) for line in _of_group(report, index)]


def _of_group(report: ClusterReport, index: int) -> Iterator[str]:
    group, total = f"group {quoted(report.groups[index])}", report.group(index)
    strays = [stray.log for stray in report.strays_of(index)]
    if not strays and not total.log_count:
        yield f"{group} has committed no offset here"
    if strays:
        yield f"{group}: {count_text(len(strays), 'offset')} in logs that no broker holds, {strays[0]} first"
    for standing, what in _COMPLAINTS.items():
        logs = [log.log for log in report.logs if log.positions[index].standing is standing]
        lost = f" ({size_text(total.lost, report.generation)} lost)" if standing is Standing.BEHIND else ""
        if logs:
            yield f"{group}: {count_text(len(logs), 'offset')} {what}{lost}, {logs[0]} first"
