"""A plugin for tests without a JVM: it fails each that imports Spark or starts a JVM."""

from __future__ import annotations

import os
import sys


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event == "import" and str(arguments[0]).partition(".")[0] in ("pyspark", "py4j"):
        raise RuntimeError(f"a test without @pytest.mark.jvm imports {arguments[0]}")
    if event == "subprocess.Popen" and os.path.basename(os.fsdecode(str(arguments[0]))) == "java":
        raise RuntimeError(f"a test without @pytest.mark.jvm starts {arguments[0]}")


# As this is loaded: before the first test is.
sys.addaudithook(_refuse)
