"""Batches of segment files as Kafka's own ``kafka-dump-log`` prints them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.broker.java import find_java
from spark_kafkawire.errors import OptionError

from .jars import NoJars, broker_jars

_TOOL: Final = "kafka.tools.DumpLogSegments"
#: The last release that has it among the broker's jars.
_VERSION: Final = "4.1.1"
_FILE: Final = re.compile(r"Dumping (\S+)")
_FIELD: Final = re.compile(r"(\w+): (\S+)")
#: Numbers that a batch may lack; it is -1 then.
_OPTIONAL: Final = ("producerId", "producerEpoch", "baseSequence", "partitionLeaderEpoch")


def dumped(logs: Sequence[Path]) -> list[dict[str, Any]]:
    """The batches of the files, one after the other, under the names of the columns of ``batches``."""
    try:
        java, jars = find_java(), broker_jars(_VERSION)
    except (OptionError, NoJars) as reason:
        pytest.skip(str(reason))
    files = ",".join(map(str, logs))
    command = [str(java), "-cp", f"{jars}/*", _TOOL, "--skip-record-metadata", "--files", files]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    file, found = "", []
    for line in done.stdout.splitlines():
        if match := _FILE.match(line):
            file = Path(match[1]).name
        elif line.startswith("baseOffset: "):
            found.append(_row(file, dict(_FIELD.findall(line))))
    return found


def _row(file: str, fields: dict[str, str]) -> dict[str, Any]:
    number = {name: int(fields[name]) for name in fields if fields[name].lstrip("-").isdigit()}
    known = {name: None if number[name] < 0 else number[name] for name in _OPTIONAL}
    kind = next(name for name in ("CreateTime", "LogAppendTime") if name in fields)
    return {
        "file": file,
        "position": number["position"],
        "bytes": number["size"],
        "baseOffset": number["baseOffset"],
        "lastOffset": number["lastOffset"],
        "records": number["count"],
        "magic": number["magic"],
        "codec": fields["compresscodec"].lower(),
        "timestampType": kind,
        "maxTimestamp": number[kind] if number[kind] >= 0 else None,
        "producerId": known["producerId"],
        "producerEpoch": known["producerEpoch"],
        "baseSequence": known["baseSequence"],
        "leaderEpoch": known["partitionLeaderEpoch"],
        "isTransactional": fields["isTransactional"] == "true",
        "isControl": fields["isControl"] == "true",
        "crc": number["crc"],
        "isValid": fields["isvalid"] == "true",
    }
