"""The summary of a job, printed to stdout at its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from spark_kafkawire.errors import one_line

#: The key of a summary that makes the exit code ``DATA_LOSS`` where it holds something.
DATA_LOSS_KEY: Final = "data_loss"
#: The key of a summary with the name of the signal that ended the job, where one did.
ENDED_BY_KEY: Final = "ended_by"

Summary = Mapping[str, Any]


def print_summary(summary: Summary, *, as_json: bool) -> None:
    """The summary on stdout: one JSON object, or a line for each of its entries."""
    if as_json:
        print(json.dumps(summary), flush=True)
        return
    width = max(map(len, summary), default=0)
    for key, value in summary.items():
        for number, line in enumerate(_lines(value)):
            label = "" if number else key.replace("_", " ")
            print(f"{label:<{width}}  {line}", flush=True)


def _lines(value: Any) -> list[str]:
    """The lines that show a value: one for each element of a list. Lists in lists are left to JSON."""
    if isinstance(value, list):
        return [line for element in value for line in _lines(element)] or ["none"]
    if isinstance(value, dict):
        plain = {key.replace("_", " "): each for key, each in value.items() if not isinstance(each, list)}
        return [", ".join(f"{key} {_lines(each)[0]}" for key, each in plain.items())]
    return [f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else one_line(str(value))]
