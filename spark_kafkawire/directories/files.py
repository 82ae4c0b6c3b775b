"""Files of log directories: local ones, and those of object stores through ``pyarrow.fs``, others by fsspec.

    files = opened("s3://bucket/kafka-logs", FileSystemOptions())
    files.folders(files.root)       # FileInfo of each folder
    with files.open(path) as file:
        file.read_into(buffer, pos)

Paths are local ones, URIs of pyarrow (``file://``, ``s3://``, ``gs://``, ``abfs://``), or URIs that fsspec
knows. Credentials come from the environment, as pyarrow and fsspec find them: they are never part of a path.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from ..errors import OptionError, printable, quoted

#: Names of parameters of a URI that are secrets.
_SECRET: Final = re.compile("secret|key|token|sas|sig|password")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
#: Schemes that pyarrow opens without a JVM. Its own HDFS needs one.
_OF_PYARROW: Final = frozenset(("file", "s3", "gs", "gcs", "abfs", "abfss"))
_GCS: Final = frozenset(("gs", "gcs"))
_AZURE: Final = frozenset(("abfs", "abfss"))
#: Limit of all attempts of a request to GCS, seconds.
_GCS_RETRY_S: Final = "60"
#: Schemes of Hadoop for the same stores.
_SAME_AS: Final = {"s3a": "s3", "s3n": "s3"}
#: Packages of fsspec for frequent schemes, for the message where one is missing.
_PACKAGES: Final = {
    "gs": "gcsfs",
    "abfs": "adlfs",
    "sftp": "paramiko",
    "http": "aiohttp",
    "https": "aiohttp",
}
#: Characters of an error of another library that are shown.
_REASON_SIZE_MAX: Final = 300


class FileAccessError(OptionError):
    """A path that cannot be listed or read, with the reason in one line. Fatal."""


@dataclass(frozen=True, slots=True)
class FileSystemOptions:
    """Settings of a file system: ``endpoint`` is the address of an object store, ``http://host:port``;
    ``region`` that of S3."""

    endpoint: str | None = None
    region: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class FileInfo:
    """A file or a folder. ``path`` is one of its file system, ``size`` counts bytes (0 for folders),
    ``modified_ms`` is the time of its last change, 0 if it is not known."""

    path: str
    name: str
    is_folder: bool
    size: int = 0
    modified_ms: int = 0


class OpenFile(Protocol):
    """A file that is open for reading at any position. Several threads may read at once."""

    def read_into(self, buffer: memoryview, pos: int) -> int:
        """Fill ``buffer`` from ``pos`` on; the number of bytes, which is smaller only at the end of the file.
        Raises ``OSError``."""

    def close(self) -> None: ...


@dataclass(slots=True)
class Files:
    """One file system and the path in it that the user gave as ``uri``. ``is_local`` is True for the disks of
    this machine, whose reads need no read-ahead."""

    uri: str
    root: str
    is_local: bool
    _system: Any = field(repr=False)

    def listed(self, folder: str) -> list[FileInfo]:
        """The content of a folder, sorted by name. Raises ``FileNotFoundError``, and ``FileAccessError`` for
        all other failures."""
        if self.is_local:
            return _listed_locally(folder)
        from pyarrow.fs import FileSelector, FileType

        # pyarrow's GCS lists no folder but those that an empty object marks, so all files are listed.
        is_deep = _scheme(self.uri) in _GCS
        selector = FileSelector(folder, allow_not_found=is_deep, recursive=is_deep)
        with reading(self, folder):
            found = [
                FileInfo(
                    each.path,
                    each.base_name,
                    each.type == FileType.Directory,
                    each.size or 0,
                    int(each.mtime.timestamp() * 1000) if each.mtime else 0,
                )
                for each in self._system.get_file_info(selector)
            ]
        if is_deep and not found:
            raise FileNotFoundError(printable(folder))
        return sorted(_children(folder, found) if is_deep else found)

    def open(self, path: str) -> OpenFile:
        """Open a file. Raises ``FileNotFoundError``, and ``FileAccessError`` for all other failures."""
        with reading(self, path):
            if self.is_local:
                return _LocalFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            return _RemoteFile(self._system.open_input_file(path))

    def read(self, path: str) -> bytes:
        """The whole content of a small file. Raises as ``open`` does."""
        with reading(self, path):
            if self.is_local:
                with open(path, "rb") as file:
                    return file.read()
            with self._system.open_input_file(path) as remote:
                content: bytes = remote.read()
                return content

    def shown(self, path: str) -> str:
        """A path of the file system as the user would write it."""
        scheme = _scheme(self.uri)
        return printable(path if self.is_local or not scheme else f"{scheme}://{path}")


@contextlib.contextmanager
def reading(files: Files, path: str) -> Iterator[None]:
    """Turn errors of a file system into ``FileAccessError`` (fatal); a missing file stays one."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise FileAccessError(f"{files.shown(path)} cannot be read: {reason_of(error)}") from error


def opened(uri: str, options: FileSystemOptions) -> Files:
    """The file system of a path. No file is read. Raises ``FileAccessError`` (fatal)."""
    if "\0" in uri:
        raise FileAccessError("path: it holds a NUL, which no path can have")
    scheme = _scheme(uri)
    if not scheme:
        return Files(uri, os.path.abspath(uri), True, None)
    parts = _parts(uri)
    if scheme == "file":
        return Files(uri, os.path.abspath(parts.path), True, None)
    if _holds_credentials(parts, scheme):
        raise FileAccessError(
            "path: it holds credentials, which would be logged: set them where pyarrow looks for them, as "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if scheme == "hdfs":
        raise FileAccessError(
            f"path {quoted(uri)}: a client of hdfs:// needs a JVM; use webhdfs://host:port, the HTTP port "
            "of the name node"
        )
    if scheme in _OF_PYARROW:
        return _of_pyarrow(uri, options)
    return _of_fsspec(uri, scheme, options)


def _of_pyarrow(uri: str, options: FileSystemOptions) -> Files:
    from pyarrow.fs import FileSystem

    try:
        system, root = FileSystem.from_uri(_with_settings(uri, options))
    except Exception as error:  # pyarrow raises classes of many kinds here
        raise FileAccessError(f"path {quoted(uri)} cannot be opened: {reason_of(error)}") from error
    return Files(uri, root.rstrip("/"), False, system)


def _parts(uri: str) -> SplitResult:
    """The parts of a URI. The error does not show it: it may hold credentials."""
    try:
        return urlsplit(uri)
    except ValueError:
        raise FileAccessError("path: the host or bucket after :// is not a valid one") from None


def _holds_credentials(parts: SplitResult, scheme: str) -> bool:
    """True if a URI has a user, a password, or a parameter that is named like a secret. In URIs of Azure the
    name before the @ is a container. GCS has ``anonymous@`` for a public bucket."""
    is_anonymous = scheme in _GCS and parts.username == "anonymous"
    has_user = "@" in parts.netloc and scheme not in _AZURE and not is_anonymous
    names = (name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    return has_user or parts.password is not None or any(map(_SECRET.search, names))


def _with_settings(uri: str, options: FileSystemOptions) -> str:
    """The URI with the settings as parameters, which is how pyarrow takes them. Those of the URI itself have
    priority."""
    parts = urlsplit(uri)
    given = dict(parse_qsl(parts.query))
    scheme = _SAME_AS.get(parts.scheme.lower(), parts.scheme.lower())
    # Without a limit, pyarrow asks a GCS that does not answer for 15 minutes.
    added = {"retry_limit_seconds": _GCS_RETRY_S} if scheme in _GCS else {}
    if options.endpoint is not None:
        address = urlsplit(options.endpoint if "://" in options.endpoint else f"https://{options.endpoint}")
        if scheme in _AZURE:
            authorities = ("blob_storage_authority", "dfs_storage_authority")
            added |= dict.fromkeys(authorities, address.netloc)
            added["enable_tls"] = str(address.scheme == "https").lower()
        else:
            added |= {"endpoint_override": address.netloc, "scheme": address.scheme}
    if options.region is not None:
        added["region"] = options.region
    query = urlencode({**added, **given})
    return urlunsplit((scheme, parts.netloc, parts.path, query, ""))


def _of_fsspec(uri: str, scheme: str, options: FileSystemOptions) -> Files:
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    try:
        import fsspec
    except ImportError:
        raise FileAccessError(
            f"path {quoted(uri)}: {scheme}:// needs fsspec; run: pip install 'spark-kafkawire[files]'"
        ) from None
    settings = {} if options.endpoint is None else {"endpoint_url": options.endpoint}
    try:
        system, root = fsspec.core.url_to_fs(f"{scheme}{uri[uri.index('://') :]}", **settings)
    except ImportError as error:
        package = _PACKAGES.get(scheme)
        install = f"; run: pip install {package}" if package else ""
        raise FileAccessError(f"path {quoted(uri)}: {reason_of(error)}{install}") from None
    except Exception as error:  # each scheme has classes of its own
        raise FileAccessError(f"path {quoted(uri)} cannot be opened: {reason_of(error)}") from error
    return Files(uri, root.rstrip("/"), False, PyFileSystem(FSSpecHandler(system)))


def _scheme(uri: str) -> str:
    """The scheme of a URI that pyarrow or fsspec knows; empty for a local path."""
    match = _SCHEME.match(uri)
    scheme = match[1].lower() if match else ""
    return _SAME_AS.get(scheme, scheme)


def reason_of(error: BaseException) -> str:
    """The reason of another library's error, one short line: libraries of object stores print requests."""
    if isinstance(error, OSError) and error.strerror:
        return printable(error.strerror)
    line = " ".join(str(error).split())
    # pyarrow's errors of S3 end in details for its own developers.
    line = line.partition(" Detail: ")[0]
    shown = printable(line)
    return shown if len(shown) <= _REASON_SIZE_MAX else f"{shown[:_REASON_SIZE_MAX]}…"


def _children(folder: str, found: list[FileInfo]) -> list[FileInfo]:
    """The content of a folder itself, of all that is below it."""
    children: dict[str, FileInfo] = {}
    for each in found:
        name, is_deeper, _ = each.path[len(folder) + 1 :].partition("/")
        if is_deeper:
            children.setdefault(name, FileInfo(f"{folder}/{name}", name, True))
        else:
            children[name] = each
    return list(children.values())


def _listed_locally(folder: str) -> list[FileInfo]:
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # a broker has just removed it
                    facts = entry.stat()
                    is_folder = entry.is_dir()
                    size = 0 if is_folder else facts.st_size
                    found.append(
                        FileInfo(
                            entry.path,
                            entry.name,
                            is_folder,
                            size,
                            facts.st_mtime_ns // 1_000_000,
                        )
                    )
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FileAccessError(f"{printable(folder)} cannot be listed: {reason_of(error)}") from error
    return sorted(found)


class _LocalFile:
    """A file of this machine, read into the caller's memory."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read_into(self, buffer: memoryview, pos: int) -> int:
        done = 0
        while done < len(buffer):
            count = os.preadv(self._descriptor, [buffer[done:]], pos + done)
            if not count:
                break
            done += count
        return done

    def close(self) -> None:
        os.close(self._descriptor)


class _RemoteFile:
    """A file of an object store: each read is one request."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read_into(self, buffer: memoryview, pos: int) -> int:
        found = self._file.read_at(len(buffer), pos)
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._file.close()


#: Settings of nobody, for callers without options.
NO_SETTINGS: Final = FileSystemOptions()
