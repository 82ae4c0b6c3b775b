"""Files of any file system that Spark's Hadoop knows (``file:``, ``hdfs:``, ``s3a:``, ...), by path.

What is assumed of the file system: ``rename`` of a file or folder is one step, which somebody else sees
as done or not done, and a file that was closed can be listed and read at once. That holds for local
disks and HDFS. Of object stores it holds where the connector says so; renaming a folder is many steps
in S3.
"""

from __future__ import annotations

import uuid
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ..errors import KafkaWireError, shown
from .java_errors import reason_of


class FileError(KafkaWireError):
    """A file or folder cannot be read or written. Fatal."""


class Files:
    """Files by path. All methods raise ``FileError``, which names the path."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._conf = spark.sparkContext._jsc.hadoopConfiguration()

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return bool(self._call("exists", path))

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none where there is no such folder."""
        if not self.exists(folder):
            return []
        return sorted(status.getPath().getName() for status in self._call("listStatus", folder))

    def read(self, path: str) -> str:
        """A file's text."""
        stream = self._call("open", path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        except Py4JJavaError as error:
            raise _file_error("read", path, error) from error
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Make a file in one step: it is there with all of its text, or not at all."""
        folder, _, name = path.rpartition("/")
        unfinished = f"{folder}/.{name}.{uuid.uuid4().hex}.unfinished"
        stream = self._call("create", unfinished, True)
        try:
            stream.write(bytearray(text.encode()))
            stream.hsync()
            stream.close()
        except Py4JJavaError as error:
            raise _file_error("write", path, error) from error
        self.rename(unfinished, path)

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder to what is not there yet."""
        if self.exists(target):
            raise FileError(f"{shown(target)} is there already: does another run write here?")
        if not self._call("rename", source, self._path(target)):
            raise FileError(f"cannot rename {shown(source)} to {shown(target)}")
        # What came to be there meanwhile, and is a folder, was not replaced: the other one went into it.
        inside = f"{target}/{source.rpartition('/')[2]}"
        is_folder = self._call("getFileStatus", target).isDirectory()
        if is_folder and self.exists(inside):
            self.remove(inside)
            raise FileError(f"{shown(target)} came to be there meanwhile: does another run write here?")

    def local_path(self, path: str) -> str | None:
        """The path as this machine knows it; None on another file system than this machine's own."""
        where = self._path(path)
        files = where.getFileSystem(self._conf)
        if str(files.getUri().getScheme()) != "file":
            return None
        return str(files.makeQualified(where).toUri().getPath())

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""
        if not self._call("mkdirs", path):
            raise FileError(f"{shown(path)}: cannot make the folder: may this user write there?")

    def remove(self, path: str) -> None:
        """Remove a file or folder, which need not be there."""
        self._call("delete", path, True)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _call(self, method: str, path: str, *arguments: Any) -> Any:
        try:
            where = self._path(path)
            return getattr(where.getFileSystem(self._conf), method)(where, *arguments)
        except Py4JJavaError as error:
            raise _file_error(method, path, error) from error


def _file_error(method: str, path: str, error: Py4JJavaError) -> FileError:
    return FileError(f"{shown(path)}: cannot {method}: {shown(reason_of(error))}")
