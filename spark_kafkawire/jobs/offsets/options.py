"""Options of the job ``offsets``, which shows, exports and imports offsets of groups of both generations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spark_kafkawire.errors import OptionError


@dataclass(frozen=True, slots=True)
class OffsetsOptions:
    """Options of a report or an import. Raises ``OptionError`` (fatal) for arguments that contradict each
    other.

    ``connection`` are options of the data source, ``selection`` is the one that selects topics, empty for
    all. With ``imported`` the groups are those to take from that file, otherwise those to report.
    """

    connection: Mapping[str, str] = field(repr=False)
    selection: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    all_groups: bool = False
    check: bool = False
    html: Path | None = None
    exported: Path | None = None
    imported: Path | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        if self.imported is None:
            self._check_report()
        else:
            self._check_import()

    def _check_report(self) -> None:
        if not (self.groups or self.all_groups):
            for argument, is_given in (("--export", self.exported is not None), ("--check", self.check)):
                if is_given:
                    raise OptionError(f"argument {argument} needs --group or --all-groups; add one")
        if self.dry_run:
            raise OptionError("argument --dry-run needs --import; add that, or leave it out")

    def _check_import(self) -> None:
        if self.all_groups:
            raise OptionError(
                "argument --all-groups cannot be combined with --import, whose file names the groups; leave "
                "it out"
            )
        pattern = "--topic-pattern" if "subscribePattern" in self.selection else "--topic"
        for argument, is_given in (
            (pattern, bool(self.selection)),
            ("--html", self.html is not None),
            ("--check", self.check),
        ):
            if is_given:
                raise OptionError(
                    f"argument {argument} cannot be combined with --import; run the command once with each"
                )
