"""Files of log directories: local ones, and those of object stores through ``pyarrow.fs``, others by
fsspec.

    files = opened("s3://bucket/kafka-logs", FileSystemOptions())
    files.folders(files.root)       # FileInfo of each folder
    with files.open(path) as file:
        file.read_into(buffer, pos)
    for frame, start in windows(files, path, pos, stop_pos):
        frame[start:]               # the next bytes; frame[:start] is free for bytes of the window before

Paths are local ones, URIs of pyarrow (``file://``, ``s3://``, ``gs://``, ``abfs://``), or URIs that
fsspec knows. Credentials come from the environment, as pyarrow and fsspec find them: they are never
part of a path.

Windows of a large file are requested several ahead where a request takes long. A batch that the end of a
window cuts can be put in front of the next window, so that it is decoded in place. Memory is that of the
windows, whatever the size of the file.

Slices are the files of a range of one partition: plain data that planning gives to a task.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

import numpy as np

from ..errors import OptionError, printable, quote
from ..model import Generation
from .file_systems import ArrowFiles, FileInfo, FileSystem, FsspecFiles, LocalFiles, OpenFile

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
    "webhdfs": "requests",
}
#: Schemes whose paths may name a user: the name alone is no credential.
_WITH_USER: Final = frozenset(("webhdfs", "sftp", "ssh", "smb"))
#: Parameters of a request in the error of another library: some are credentials.
_PARAMETERS: Final = re.compile(r"\?[^\s'\")]+")
#: Longest entries of an index or a snapshot, bytes. ``segment.index.bytes`` is 10 MiB unless it is set, and
#: the largest segment (2 GiB) has 4 MiB of entries with ``index.interval.bytes=4096``. A snapshot has 46 for
#: each producer.
ENTRIES_BYTES_MAX: Final = 32 << 20
#: Bytes of entries that are requested at once: most files are shorter.
_ENTRIES_WINDOW_BYTES: Final = 4 << 20
#: Zeros that no entries hold, bytes: each of at most 46 has a byte that is not zero.
_ZEROS_BYTES: Final = 1 << 10
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


@dataclass(slots=True)
class Files:
    """One file system and the path in it that the user gave as ``uri``. ``is_local`` is True for the disks of
    this machine, whose reads need no read-ahead."""

    uri: str
    root: str
    is_local: bool
    _system: FileSystem = field(repr=False)

    def listed(self, folder: str) -> list[FileInfo]:
        """The content of a folder, sorted by name. Raises ``FileNotFoundError``, and ``FileAccessError`` for
        all other failures."""
        with reading(self, folder):
            return sorted(self._system.listed(folder))

    def open(self, path: str) -> OpenFile:
        """Open a file. Raises ``FileNotFoundError``, and ``FileAccessError`` for all other failures."""
        with reading(self, path):
            return self._system.open(path)

    def read(self, path: str, bytes_max: int) -> bytes:
        """The whole content of a file, of which a broker writes ``bytes_max`` at most. Raises as ``open``
        does, also for a longer one."""
        with self._content(path) as file:
            if file.size > bytes_max:
                raise _too_long(file.size, bytes_max)
            return _span(file, 0, file.size)

    def read_at(self, path: str, pos: int, count: int) -> bytes:
        """The bytes ``[pos, pos + count)`` of a file, fewer where it ends. Raises as ``open`` does."""
        with self._content(path) as file:
            return _span(file, pos, count)

    def read_entries(self, path: str | None) -> bytes:
        """The content of an index or a snapshot up to the first window that ends in zeros: a broker leaves
        them at the end of an index. Empty without the file: it may go with its segment. Raises
        ``FileAccessError`` (fatal), also if there is more than ``ENTRIES_BYTES_MAX`` before the zeros."""
        result = bytearray()
        if path is None:
            return b""
        with contextlib.suppress(FileNotFoundError), self._content(path) as file:
            while len(result) < file.size and (len(result) < _ZEROS_BYTES or any(result[-_ZEROS_BYTES:])):
                if len(result) >= ENTRIES_BYTES_MAX:
                    raise _too_long(file.size, ENTRIES_BYTES_MAX)
                window = _span(file, len(result), min(_ENTRIES_WINDOW_BYTES, file.size - len(result)))
                if not window:  # a broker has just trimmed it
                    break
                result += window
        return bytes(result)

    @contextlib.contextmanager
    def _content(self, path: str) -> Iterator[OpenFile]:
        with reading(self, path), contextlib.closing(self._system.open(path)) as file:
            yield file

    def check_is_here(self) -> None:
        """Raise ``FileAccessError`` (fatal) if a task does not see what the driver has listed."""
        try:
            self.listed(self.root)
        except FileNotFoundError:
            raise FileAccessError(
                f"path {self.shown(self.root)} does not exist on this executor: it must be there for the "
                "driver and for all executors, such as on shared storage"
            ) from None

    def shown(self, path: str) -> str:
        """A path of the file system as the user would write it."""
        scheme = _scheme(self.uri)
        if self.is_local or not scheme:
            return printable(path)
        # In a path of fsspec there may be no host.
        parts = urlsplit(self.uri)
        host = parts.netloc if self.root == parts.path.rstrip("/") else ""
        return printable(f"{scheme}://{host}{path}")


def _span(file: OpenFile, pos: int, count: int) -> bytes:
    """The bytes ``[pos, pos + count)`` of a file, fewer where it ends."""
    buffer = memoryview(bytearray(count))
    return bytes(buffer[: file.read_into(buffer, pos)])


def _too_long(size: int, bytes_max: int) -> OSError:
    return OSError(
        errno.EFBIG, f"it has {size} bytes, and a broker writes at most {bytes_max}: copy it again"
    )


@contextlib.contextmanager
def reading(files: Files, path: str) -> Iterator[None]:
    """Turn errors of a file system into ``FileAccessError`` (fatal); a missing file stays one."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:  # libraries of file systems have classes of their own
        raise FileAccessError(
            f"{files.shown(path)} cannot be read: {reason_of(error)}; check that it is there, and who may "
            "read it"
        ) from error


def open_files(uri: str, options: FileSystemOptions) -> Files:
    """The file system of a path. No file is read. Raises ``FileAccessError`` (fatal)."""
    if "\0" in uri:
        raise FileAccessError("option path: it holds the character NUL, which no path can have; remove it")
    scheme = _scheme(uri)
    if not scheme:
        return Files(uri, os.path.abspath(uri), True, LocalFiles())
    parts = _parts(uri)
    if scheme == "file":
        return Files(uri, os.path.abspath(parts.path), True, LocalFiles())
    if _holds_credentials(parts, scheme):
        raise FileAccessError(
            "option path: it holds credentials, which would be logged: set them where pyarrow or fsspec "
            "looks for them, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if scheme == "hdfs":
        raise FileAccessError(
            f"path {quote(uri)}: a client of hdfs:// needs a JVM; use webhdfs://host:port, the HTTP port "
            "of the name node"
        )
    if scheme in _OF_PYARROW:
        return _open_pyarrow(uri, options)
    return _open_fsspec(uri, scheme, options)


def _open_pyarrow(uri: str, options: FileSystemOptions) -> Files:
    from pyarrow.fs import FileSystem

    try:
        system, root = FileSystem.from_uri(_with_settings(uri, options))
    except Exception as error:  # pyarrow raises classes of many kinds here
        raise FileAccessError(
            f"path {quote(uri)} cannot be opened: {reason_of(error)}; check its address and the login to "
            "the store"
        ) from error
    # pyarrow's GCS lists no folder but those that an empty object marks.
    return Files(uri, root.rstrip("/"), False, ArrowFiles(system, is_flat=_scheme(uri) in _GCS))


def _parts(uri: str) -> SplitResult:
    """The parts of a URI. The error does not show it: it may hold credentials."""
    try:
        return urlsplit(uri)
    except ValueError:
        raise FileAccessError(
            "option path: the host or bucket after :// is not a valid one; correct it"
        ) from None


def _holds_credentials(parts: SplitResult, scheme: str) -> bool:
    """True if a URI has a user, a password, or a parameter that is named like a secret. In URIs of Azure the
    name before the @ is a container. GCS has ``anonymous@`` for a public bucket."""
    is_anonymous = scheme in _GCS and parts.username == "anonymous"
    may_have_user = scheme in _AZURE or scheme in _WITH_USER or is_anonymous
    has_user = "@" in parts.netloc and not may_have_user
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


def _open_fsspec(uri: str, scheme: str, options: FileSystemOptions) -> Files:
    if scheme == "webhdfs":
        _check_webhdfs(uri, options)
    try:
        import fsspec
    except ImportError:
        raise FileAccessError(
            f"path {quote(uri)}: {scheme}:// needs fsspec; run: pip install fsspec requests"
        ) from None
    settings = {} if options.endpoint is None else {"endpoint_url": options.endpoint}
    try:
        system, root = fsspec.core.url_to_fs(f"{scheme}{uri[uri.index('://') :]}", **settings)
    except ImportError as error:
        package = _PACKAGES.get(scheme)
        install = f"; run: pip install {package}" if package else ""
        raise FileAccessError(f"path {quote(uri)}: {reason_of(error)}{install}") from None
    except Exception as error:  # each scheme has classes of its own
        raise FileAccessError(
            f"path {quote(uri)} cannot be opened: {reason_of(error)}; check its address and the login to "
            "the store"
        ) from error
    return Files(uri, root.rstrip("/"), False, FsspecFiles(system, scheme))


def _check_webhdfs(uri: str, options: FileSystemOptions) -> None:
    """Refuse what fsspec would not use."""
    parts = _parts(uri)
    if options.endpoint is not None:
        reason = "fs.endpoint does not apply to webhdfs://, whose path names the name node"
    elif not parts.hostname:
        reason = "it lacks the name node; write webhdfs://host:port/path, with the HTTP port"
    elif parts.query:
        reason = "webhdfs:// takes no parameters; see the documentation of fsspec for FSSPEC_WEBHDFS"
    else:
        return
    raise FileAccessError(f"path {quote(uri)}: {reason}")


def _scheme(uri: str) -> str:
    """The scheme of a URI that pyarrow or fsspec knows; empty for a local path."""
    match = _SCHEME.match(uri)
    scheme = match[1].lower() if match else ""
    return _SAME_AS.get(scheme, scheme)


def _system_reason(error: BaseException) -> str:
    """The system's text for an error or, if that has none, for the one that led to it: libraries of HTTP show
    the whole request before it. "" without one."""
    item: BaseException | None = error
    while isinstance(item, Exception):
        if isinstance(item, OSError) and item.strerror:
            return str(item.strerror)
        item = item.__cause__ or (None if item.__suppress_context__ else item.__context__)
    return ""


def reason_of(error: BaseException) -> str:
    """The reason of another library's error, one short line: libraries of object stores print requests."""
    if reason := _system_reason(error):
        return printable(reason)
    line = " ".join(str(error).split())
    if not isinstance(error, OSError | ValueError | RuntimeError | ImportError):
        line = f"{type(error).__name__}: {line}"
    # pyarrow's errors of S3 end in details for its own developers.
    line = line.partition(" Detail: ")[0]
    shown = printable(_PARAMETERS.sub("?…", line))
    return shown if len(shown) <= _REASON_SIZE_MAX else f"{shown[:_REASON_SIZE_MAX]}…"


#: Size of a window, bytes: one request to an object store.
WINDOW_BYTES: Final = 8 << 20
#: Free bytes in front of a window: most batches fit there.
HEADROOM_BYTES: Final = 1 << 20
#: Windows that are requested at once from an object store.
AHEAD_COUNT: Final = 4


def windows(
    files: Files, path: str, pos: int, stop_pos: int, *, window_bytes: int = WINDOW_BYTES
) -> Iterator[tuple[memoryview, int]]:
    """The bytes ``[pos, stop_pos)`` of a file in order: frames, and where their bytes begin.

    A frame is overwritten when a later one is requested. The last one is shorter if the file is.
    Raises ``FileNotFoundError``, and ``FileAccessError`` (fatal).
    """
    file = files.open(path)
    try:
        spans = [(at, min(window_bytes, stop_pos - at)) for at in range(pos, stop_pos, window_bytes)]
        if files.is_local:
            buffer = _room(spans)
            for at, size in spans:
                yield _fill_buffer(files, path, file, buffer, at, size)
        else:
            yield from _ahead(files, path, file, spans)
    finally:
        file.close()


def only_zeros(files: Files, path: str, pos: int, stop_pos: int) -> bool:
    """True if a file has only zeros from a position on: room for batches that were never written."""
    return not any(
        np.frombuffer(frame, np.uint8)[start:].any() for frame, start in windows(files, path, pos, stop_pos)
    )


def _ahead(
    files: Files, path: str, file: OpenFile, spans: list[tuple[int, int]]
) -> Iterator[tuple[memoryview, int]]:
    count = min(AHEAD_COUNT, len(spans))
    free = [_room(spans) for _ in range(count)]
    asked: deque[tuple[Future[tuple[memoryview, int]], memoryview]] = deque()
    left = iter(spans)
    with ThreadPoolExecutor(max(count, 1), "kafkawire-files") as pool:
        try:
            while True:
                while free and (span := next(left, None)) is not None:
                    buffer = free.pop()
                    asked.append((pool.submit(_fill_buffer, files, path, file, buffer, *span), buffer))
                if not asked:
                    return
                future, buffer = asked.popleft()
                yield future.result()
                free.append(buffer)
        finally:
            for future, _ in asked:
                future.cancel()


def _room(spans: list[tuple[int, int]]) -> memoryview:
    return memoryview(bytearray(HEADROOM_BYTES + max((size for _, size in spans), default=0)))


def _fill_buffer(
    files: Files, path: str, file: OpenFile, buffer: memoryview, pos: int, size: int
) -> tuple[memoryview, int]:
    with reading(files, path):
        count = file.read_into(buffer[HEADROOM_BYTES : HEADROOM_BYTES + size], pos)
    return buffer[: HEADROOM_BYTES + count], HEADROOM_BYTES


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """A segment file with its size when the read was planned, bytes; a live broker may append to it.

    ``next_base`` is where the next segment begins, None for the last one. ``offset_index`` is the name of its
    index, None without one."""

    name: str
    base_offset: int
    size: int
    next_base: int | None = None
    offset_index: str | None = None


@dataclass(frozen=True, slots=True)
class LogSlice:
    """The segments of a range, ascending. All files are in ``folder``, a path of the file system of ``uri``.

    ``is_log_end`` is True if the range ends where the log did: the last message may be cut there (0.7).
    ``txn_indexes`` are the indexes of aborted transactions from the first segment to the end of the log, for
    reads of committed records. ``is_compacted`` is True if the log cleaner went over the partition, so that
    gaps between offsets are legal.
    """

    uri: str
    settings: FileSystemOptions
    generation: Generation
    folder: str
    segments: tuple[SegmentSlice, ...]
    is_log_end: bool = False
    txn_indexes: tuple[str, ...] = ()
    is_compacted: bool = False

    def path(self, name: str) -> str:
        """The path of a file in the folder."""
        return f"{self.folder}/{name}"
