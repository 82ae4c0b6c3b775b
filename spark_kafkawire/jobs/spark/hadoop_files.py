"""Files of any file system that Spark's Hadoop knows (``file:``, ``hdfs:``, ``s3a:``, ...), by path.

The file system must rename a file or folder in one step, and list a closed file at once. Local disks do, but
have a class of their own (``LocalFiles``). HDFS does. For object stores see their connector; S3 renames a
folder in many steps.
"""

from __future__ import annotations

import uuid
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spark_kafkawire.errors import printable

from ..ending import reason_of
from ..files import FileError, FileSystem, LocalFiles, is_there, printable_path


class Files:
    """Files by path, each by the file system that it is of."""

    def __init__(self, spark: SparkSession) -> None:
        self._hadoop = HadoopFiles(spark)
        self._local = LocalFiles()

    def _at(self, path: str) -> tuple[FileSystem, str]:
        local = self._hadoop.local_path(path)
        return (self._hadoop, path) if local is None else (self._local, local)

    def exists(self, path: str) -> bool:
        files, path = self._at(path)
        return files.exists(path)

    def names(self, folder: str) -> list[str]:
        files, folder = self._at(folder)
        return files.names(folder)

    def read(self, path: str) -> str:
        files, path = self._at(path)
        return files.read(path)

    def create(self, path: str, text: str) -> None:
        files, path = self._at(path)
        files.create(path, text)

    def rename(self, source: str, target: str) -> None:
        (files, source), (_, target) = self._at(source), self._at(target)
        files.rename(source, target)

    def make_folder(self, path: str) -> None:
        files, path = self._at(path)
        files.make_folder(path)

    def remove(self, path: str) -> None:
        files, path = self._at(path)
        files.remove(path)

    def sync(self, folder: str) -> None:
        files, folder = self._at(folder)
        files.sync(folder)

    def local_path(self, path: str) -> str | None:
        return self._hadoop.local_path(path)


class HadoopFiles:
    """Files of Hadoop's file systems, this machine's among them."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._conf = spark.sparkContext._jsc.hadoopConfiguration()

    def exists(self, path: str) -> bool:
        return bool(self._call("exists", path))

    def names(self, folder: str) -> list[str]:
        if not self.exists(folder):
            return []
        return sorted(status.getPath().getName() for status in self._call("listStatus", folder))

    def read(self, path: str) -> str:
        stream = self._call("open", path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        except Py4JJavaError as error:
            raise _file_error("read", path, error) from error
        finally:
            stream.close()

    def create(self, path: str, text: str) -> None:
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
        if self.exists(target):
            raise is_there(target)
        if not self._call("rename", source, self._path(target)):
            raise FileError(
                f"cannot rename {printable_path(source)} to {printable_path(target)}: may this user write "
                "there?"
            )
        # If the target was created as a folder meanwhile, Hadoop has moved the source into it.
        inside = f"{target}/{source.rpartition('/')[2]}"
        is_folder = self._call("getFileStatus", target).isDirectory()
        if is_folder and self.exists(inside):
            self.remove(inside)
            raise FileError(f"{printable_path(target)} was created meanwhile: does another run write here?")

    def local_path(self, path: str) -> str | None:
        where = self._path(path)
        try:
            files = where.getFileSystem(self._conf)
            if str(files.getUri().getScheme()) != "file":
                return None
            return str(files.makeQualified(where).toUri().getPath())
        except Py4JJavaError as error:
            raise _file_error("find", path, error) from error

    def make_folder(self, path: str) -> None:
        if not self._call("mkdirs", path):
            raise FileError(f"{printable_path(path)}: cannot make the folder: may this user write there?")

    def remove(self, path: str) -> None:
        self._call("delete", path, True)

    def sync(self, folder: str) -> None:
        """Do nothing: the file system keeps closed files."""

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _call(self, method: str, path: str, *arguments: Any) -> Any:
        try:
            where = self._path(path)
            return getattr(where.getFileSystem(self._conf), method)(where, *arguments)
        except Py4JJavaError as error:
            raise _file_error(method, path, error) from error


def _file_error(method: str, path: str, error: Py4JJavaError) -> FileError:
    return FileError(f"{printable_path(path)}: cannot {method}: {printable(reason_of(error))}")
