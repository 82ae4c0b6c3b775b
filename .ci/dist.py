"""Build what is published, check it, and put it into a folder: ``make dist``.

    .venv/dist-tools/bin/python .ci/dist.py dist

The results are the sdist, the wheel and the recipe for conda-forge. The sources are the files that git knows,
so that no product of an earlier build is published. The files are put into the folder when all checks have
passed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Mapping
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parents[1]
RECIPE: Final = ROOT / ".ci" / "recipe.yaml"
#: Packages with other names on conda-forge than on PyPI.
CONDA_NAMES: Final = {"isal": "python-isal"}
#: A script that writes to the embedded broker through Spark and reads the rows back.
READ: Final = """
from pyspark.sql import SparkSession
from spark_kafkawire.broker import EmbeddedCluster

with EmbeddedCluster(brokers=1, partitions=1, zookeeper=False) as cluster:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    options = {"broker.list": cluster.broker_list}
    rows = spark.createDataFrame([("found",)], "value string")
    rows.write.format("kafkawire").mode("append").options(**options, topic="t").save()
    read = spark.read.format("kafkawire").options(**options, subscribe="t").load().collect()
    assert [row.value for row in read] == [b"found"], read
"""


def main(target: Path) -> None:
    """Build, check, and print the results."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = folder / "dist"
        source = copy_sources(folder / "source")
        run(sys.executable, "-m", "build", "--outdir", built, source)
        run(sys.executable, "-m", "build", "--wheel", "--outdir", folder / "tree", source)
        [sdist], [wheel], [tree_wheel] = (
            built.glob("*.gz"),
            built.glob("*.whl"),
            (folder / "tree").glob("*.whl"),
        )
        done("built the sdist, a wheel from it and a wheel from the tree")
        compare(contents_of(wheel), contents_of(tree_wheel))
        done("both wheels have the same files")
        run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
        done("twine has no complaint")
        metadata = metadata_of(wheel)
        recipe = built / "recipe.yaml"
        recipe.write_text(fill_recipe(RECIPE.read_text("utf-8"), metadata, sdist), "utf-8")
        check_recipe(recipe, metadata)
        done("the conda recipe renders; not run: its build, which needs the channel conda-forge")
        read_with(wheel, folder / "environment")
        done("an empty environment with the wheel writes and reads through Spark")
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted(built.iterdir()):
            print(f"{shutil.copy(file, target)}: {file.stat().st_size:,} bytes")


def done(what: str) -> None:
    """Print the current check: all checks take a minute."""
    print(f"dist: {what}", flush=True)


def run(*command: str | Path, cwd: Path = ROOT, environment: Mapping[str, str] = os.environ) -> None:
    """Run a command. If it fails, print its output and exit."""
    words = [str(word) for word in command]
    ran = subprocess.run(
        words, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if ran.returncode != 0:
        sys.exit(f"{ran.stdout}\n{' '.join(words)} failed with exit code {ran.returncode}.")


def copy_sources(target: Path) -> Path:
    """A copy of the files that git has, or that can be added to it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    files = [Path(name) for name in listed.stdout.split("\0") if name]
    for file in files:
        if (ROOT / file).exists():  # otherwise the file is deleted, and the deletion is not committed yet
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, target / file)
    return target


def contents_of(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel, its metadata included."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def compare(of_sdist: Mapping[str, bytes], of_tree: Mapping[str, bytes]) -> None:
    """Exit if two wheels differ."""
    names = of_sdist.keys() | of_tree.keys()
    different = sorted(name for name in names if of_sdist.get(name) != of_tree.get(name))
    if different:
        sys.exit(f"The wheel built from the sdist differs from that of the tree in: {', '.join(different)}.")


def metadata_of(wheel: Path) -> Message:
    """The metadata of a wheel, as a package index and pip see it."""
    [metadata] = [text for name, text in contents_of(wheel).items() if name.endswith(".dist-info/METADATA")]
    return message_from_bytes(metadata)


def fill_recipe(template: str, metadata: Message, sdist: Path) -> str:
    """The recipe for an sdist: the content of setup.cfg and setup.py comes from the metadata."""
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    [setuptools] = re.findall(r'"(setuptools[<>=].*?)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    values = {
        "VERSION": metadata["Version"],
        "SHA256": hashlib.sha256(sdist.read_bytes()).hexdigest(),
        "SETUPTOOLS": conda_requirement(Requirement(setuptools)),
        "RUN": "\n    - ".join(requirements_of(metadata)),
        "SPARK": requirements_of(metadata, extra="spark")[0],
        "SOURCE": urls["Source"],
        "HOMEPAGE": urls["Homepage"],
        "DOCUMENTATION": urls["Documentation"],
        "LICENSE": metadata["License-Expression"],
        "SUMMARY": metadata["Summary"],
    }
    return re.sub(r"@([A-Z0-9]+)@", lambda mark: values[mark[1]], template.partition("\n")[2])


def requirements_of(metadata: Message, extra: str = "") -> list[str]:
    """The requirements of the package, or what an extra adds, as conda has them."""
    requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    return [
        conda_requirement(item)
        for item in requirements
        if (item.marker.evaluate({"extra": extra}) if item.marker else not extra)
    ]


def conda_requirement(requirement: Requirement) -> str:
    """A requirement as conda has it, the lower bound first."""
    bounds = sorted((str(item) for item in requirement.specifier), reverse=True)
    return f"{CONDA_NAMES.get(requirement.name, requirement.name)} {','.join(bounds)}"


def check_recipe(recipe: Path, metadata: Message) -> None:
    """Exit if the recipe is not of format v1, or if the rendered recipe does not match the wheel."""
    from rattler_build import Stage0Recipe, VariantConfig  # beside build and twine only

    python_min = metadata["Requires-Python"].removeprefix(">=")
    [variant] = Stage0Recipe.from_file(str(recipe)).render(VariantConfig({"python_min": [python_min]}))
    rendered = variant.recipe.to_dict()
    package, needed = rendered["package"], rendered["requirements"]
    expected = {
        "name": metadata["Name"],
        "version": metadata["Version"],
        "run": [f"python >={python_min}", *requirements_of(metadata)],
        "run_constraints": requirements_of(metadata, extra="spark"),
    }
    result = {**package, "run": needed["run"], "run_constraints": needed["run_constraints"]}
    if result != expected:
        sys.exit(f"The conda recipe renders to {result}, and the wheel has {expected}.")


def read_with(wheel: Path, folder: Path) -> None:
    """Install the wheel as users do, and let Spark write and read with it."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    # Byte code of all packages would double the time of this step, and one read needs little of it.
    run(*pip, "install", "--quiet", "--no-compile", f"{wheel}[spark]")
    run(*pip, "check")
    (folder / "read.py").write_text(READ)
    left = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYSPARK_", "SPARK_"))
    }
    own = {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    run(python, "read.py", cwd=folder, environment=left | own)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
