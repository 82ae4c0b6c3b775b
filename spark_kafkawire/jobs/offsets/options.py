"""What a run of ``offsets`` is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import OptionError


@dataclass(frozen=True, slots=True)
class OffsetsOptions:
    """What to tell or to import. Raises ``OptionError`` (fatal) for arguments that do not go together.

    ``connection`` are options of the data source, ``selection`` is the one that selects topics, empty for
    all. With ``imported`` the groups are those of that file to take, else those to tell of.
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
                    raise OptionError(f"argument {argument}: needs --group or --all-groups")
        if self.dry_run:
            raise OptionError("argument --dry-run: goes with --import")

    def _check_import(self) -> None:
        if self.all_groups:
            raise OptionError("argument --all-groups: does not go with --import, whose file names the groups")
        pattern = "--topic-pattern" if "subscribePattern" in self.selection else "--topic"
        for argument, is_given in (
            (pattern, bool(self.selection)),
            ("--html", self.html is not None),
            ("--check", self.check),
        ):
            if is_given:
                raise OptionError(f"argument {argument}: does not go with --import")
