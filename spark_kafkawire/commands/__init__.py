"""The command lines of ``kafkawire NAME``: each is a call of ``spark_kafkawire.jobs``, without logic.

A module has a ``JOB``. It is imported when its command runs, so that ``kafkawire --help`` imports none. It
runs as a program, too, as spark-submit starts it; so its imports are absolute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Command:
    """A command of ``kafkawire``."""

    name: str
    #: One line, an imperative.
    summary: str
    #: False for one that runs without pyspark.
    needs_spark: bool

    @property
    def module(self) -> str:
        """The module of its command line, in this package."""
        return self.name.replace("-", "_")


_ALL: Final = (
    Command(
        "doctor", "say why a job does not reach its topics: name, port, TLS, login, rights, schemas", False
    ),
    Command("show", "show messages: the last ones, or those from an offset or a time on", False),
    Command("offsets", "show topics, group offsets and lag; export and import group offsets", False),
    Command(
        "checkpoints", "show the position of a streaming query; move it to another connector or offset", False
    ),
    Command("transactions", "show open transactions; finish those of an interrupted write", False),
    Command("ingest", "read topics into files, each message exactly once", True),
    Command("publish", "write files to topics", True),
    Command("migrate", "copy topics of Kafka 0.7 to a modern cluster, each message once, and verify", True),
    Command("stream-copy", "copy topics to topics or to Parquet continuously", True),
)
#: All commands by their names.
COMMANDS: Final = {command.name: command for command in _ALL}
