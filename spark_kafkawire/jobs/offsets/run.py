"""A run of offsets: a report, with a page and a file on request, or an import."""

from __future__ import annotations

from typing import Any, TextIO

from ..shell.files import read_file, write_file
from ..shell.progress import Progress
from ..shell.summary import DATA_LOSS_KEY
from .check import complaints
from .file_format import exported
from .importing import import_offsets, import_summary, print_changes
from .options import OffsetsOptions
from .page.document import page
from .report_json import as_json
from .survey import Surveyed
from .terminal import print_report


def run_offsets(options: OffsetsOptions, progress: Progress, out: TextIO, *, json: bool) -> dict[str, Any]:
    """Print the tables unless ``json``. Returns the summary for the caller to print.

    Raises ``OptionError`` (fatal), and the errors of asking the cluster.
    """
    text = read_file(options.imported, "--import") if options.imported is not None else None
    progress.step("finding brokers and topics")
    surveyed = Surveyed.of({**options.connection, **options.selection})
    if text is None:
        return _report(surveyed, options, progress, out, json=json)
    changes = import_offsets(surveyed, text, options.groups, dry_run=options.dry_run, step=progress.step)
    if json:
        return import_summary(changes, dry_run=options.dry_run)
    print_changes(changes, out, dry_run=options.dry_run)
    return {}


def _report(
    surveyed: Surveyed, options: OffsetsOptions, progress: Progress, out: TextIO, *, json: bool
) -> dict[str, Any]:
    groups = surveyed.groups_with_offsets(progress.step) if options.all_groups else options.groups
    report = surveyed.report(groups, progress.step)
    if options.html is not None:
        write_file(options.html, page(report), "--html")
    if options.exported is not None:
        write_file(options.exported, exported(report.group_offsets(), report.generation), "--export")
    checked = {DATA_LOSS_KEY: complaints(report)} if options.check else {}
    if json:
        return {**as_json(report), **checked}
    print_report(report, out)
    return checked
