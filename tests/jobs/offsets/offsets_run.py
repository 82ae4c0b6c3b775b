"""``jobs/offsets.py`` as a function of its arguments.

``python -m tests.jobs.offsets.offsets_run`` forks a process for each run (``forking``).
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Final

from ..arguments import command
from ..forking import serve

OFFSETS: Final = command("offsets")


def run_offsets(*argv: str) -> int:
    """Run the job; its exit code."""
    sys.argv = ["offsets.py", *argv]
    try:
        return int(OFFSETS.main())
    except SystemExit as ended:
        return int(ended.code or 0)


def fork_main(*argv_and_output: str) -> None:
    """Do a run in a forked process, and nothing that its parent would do on the way out."""
    *argv, output = argv_and_output
    code = 1
    try:
        with Path(output).open("w") as reported:
            os.dup2(reported.fileno(), sys.stdout.fileno())
            os.dup2(reported.fileno(), sys.stderr.fileno())
        code = run_offsets(*argv)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(fork_main)
