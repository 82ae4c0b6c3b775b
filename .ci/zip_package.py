"""Put the package into the zip that ``spark-submit --py-files`` ships: ``make zip``.

    python .ci/zip_package.py dist/spark_kafkawire.zip

The same sources give the same bytes: files are sorted, carry one date and are not compressed, so
that neither the clock nor the version of zlib is in them.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
#: The earliest date that a zip can hold.
DATE: Final = (1980, 1, 1, 0, 0, 0)
FILE_MODE: Final = 0o100644


def main(target: Path) -> None:
    """Write the zip."""
    package = ROOT / "spark_kafkawire"
    data = [file for ending in ("py", "css", "js") for file in package.rglob(f"*.{ending}")]
    files = [*data, package / "py.typed", ROOT / "pyspark_kafkawire.py"]
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(files):
            entry = zipfile.ZipInfo(file.relative_to(ROOT).as_posix(), DATE)
            entry.external_attr = FILE_MODE << 16
            entry.create_system = 3  # Unix
            archive.writestr(entry, file.read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    print(sys.argv[1])
