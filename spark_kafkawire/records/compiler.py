"""Compilation of the kernels, and the folders of compiled code.

A kernel is a plain Python function over arrays. Kernels run interpreted until this process has processed
enough rows to repay the time for loading numba (``ROWS_REPAY``); from then on all kernels run compiled.
Without a safe folder for compiled code, each process compiles for itself, and waits for more rows
(``ROWS_REPAY_COMPILING``). Without numba, or with numba switched off, kernels stay interpreted: slower, with
the same results.

The files in a folder of compiled code are executed. So a user's folder is only used if no other user can
write it, and the folder beside the package, which its installer filled, only if the installer alone can write
it. numba uses only folders that it can write, so the user's folder is filled from the installed one.

numba takes compiled code from its cache as long as the kernel's own file is the same. A kernel has functions
and constants of other files in it, and in an installed package all files may have one time. So the folder of
the compiled code has a digest in its name: another version of the package never finds it.
"""

from __future__ import annotations

import functools
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, Generic, ParamSpec, TypeVar

import numpy as np

from ..errors import LOG
from ..version import VERSION
from . import native
from .native import compile_native


@functools.cache
def digest_of(function: Callable[..., Any]) -> str:
    """The digest of a kernel's source function, 16 hexadecimal digits."""
    import hashlib  # not needed where kernels stay interpreted

    result = hashlib.sha256(VERSION.encode())
    for part in _parts(function, set()):
        result.update(part.encode() + b"\0")
    # It generates machine code for kernels, in cached functions, too.
    for item in vars(native).values():
        code = getattr(item, "__wrapped__", item)
        if isinstance(code, FunctionType) and code.__module__ == native.__name__:
            result.update("\0".join(_code(code.__code__)).encode())
    return result.hexdigest()[:16]


def _parts(function: Any, seen: set[Any]) -> Iterator[str]:
    """The code of a function, and that of the functions and the constants that it names."""
    seen.add(function)
    yield function.__module__  # compiled code in the cache refers to it: a function that moves is another one
    yield from _code(function.__code__)
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, FunctionType):
            if value not in seen:
                yield from _parts(value, seen)
        elif isinstance(value, int | float | tuple):
            yield f"{name}={value!r}"


def _code(code: CodeType) -> Iterator[str]:
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames}"
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield from _code(item)
        else:
            yield repr(item)


P = ParamSpec("P")
R = TypeVar("R")

#: Read-only bytes in the signature of a kernel.
BYTES: Final = "Array(uint8, 1, 'C', readonly=True)"
#: Bits of a position. A masked position cannot be negative, which spares compiled code the test
#: for Python's negative indices at every byte: a third of the time.
PLACE: Final = 2**62 - 1

#: Rows whose interpreted decoding takes as long as loading numba from a warm cache: 0.3 s at
#: 1.3 to 1.9 us a row. Waiting for that many costs at most twice what the best choice would.
ROWS_REPAY: Final = 150_000
#: The same without a folder of compiled code, where each process compiles the kernels of a read or a write: 1
#: to 1.5 s.
ROWS_REPAY_COMPILING: Final = 1_000_000
#: Number of 0.7 messages that take as long as one record of magic 2, interpreted: 3.7 to 4.2 us.
RECORD_COST: Final = 2

#: Name of the folder that ``compile_kernels --for-all-users`` makes.
INSTALLED: Final = Path(__file__).parents[1] / "compiled_kernels"
#: Memory that most containers can write, those with a read-only disk, too.
_SHARED_MEMORY: Final = Path("/dev/shm")
_OF_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


class Kernel(Generic[P, R]):
    """A loop over arrays, called with numpy arrays, tuples of them and integers, interpreted or compiled.

    The source must mean the same in Python and in numba: interpreted, arrays are memoryviews, so
    that elements are Python integers; compiled, integers are 64 bit and nothing checks bounds. So a kernel
    neither allocates nor raises: it returns positions and codes, which the callers turn into errors. Kernels
    check the bounds that come from peers' bytes, their callers all others.
    """

    def __init__(self, function: Callable[P, R], signature: str) -> None:
        self.function = function
        self.signature = signature
        self.compiled: Callable[P, R] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.compiled is None:
            if not loaded():
                return self.run_interpreted(*args, **kwargs)
            self.compile()
        assert self.compiled is not None
        return self.compiled(*args, **kwargs)

    def compile(self) -> bool:
        """Compile it, or fetch it from the cache; False where that fails, and it stays interpreted."""
        done = _try_to_compile([self])
        if not done:
            self.compiled = self.run_interpreted
        return done

    def run_interpreted(self, *args: P.args, **kwargs: P.kwargs) -> R:
        views: Any = _views(args)
        return self.function(*views, **kwargs)


def _views(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with memoryviews in place of arrays, also in tuples."""
    return tuple(
        arg.data if isinstance(arg, np.ndarray) else _views(arg) if isinstance(arg, tuple) else arg
        for arg in args
    )


_kernels: list[Kernel[Any, Any]] = []
_rows_expected = 0
#: True if kernels run compiled; None until that is decided.
_loaded: bool | None = None


def kernel(signature: str) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """Declare a kernel with the types it is compiled for."""

    def declare(function: Callable[P, R]) -> Kernel[P, R]:
        declared = Kernel(function, signature)
        _kernels.append(declared)
        return declared

    return declare


_inlined: list[Callable[..., Any]] = []


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Declare a function that kernels call; compiled, it becomes a part of each of them."""
    _inlined.append(function)
    return function


def expect(rows: int) -> bool:
    """Announce ``rows`` that will go through kernels; returns whether kernels will run compiled.

    Loads numba once the rows of this process repay it. Callers that know of a large range ahead
    of time may announce it before its first byte is there.
    """
    global _rows_expected
    _rows_expected += rows
    return load() if _loaded is None and _repays_loading() else loaded()


def _repays_loading() -> bool:
    if _rows_expected > ROWS_REPAY_COMPILING:
        return True
    return _rows_expected > ROWS_REPAY and users_folder() is not None


def loaded() -> bool:
    """True once kernels run compiled."""
    return bool(_loaded)


def load() -> bool:
    """Load numba, so that each kernel is compiled when it is first called. Returns False, with one warning,
    if that fails.

    A task needs few of the kernels, and compiling one takes 0.2 to 0.6 s.
    """
    global _loaded
    if _loaded is None:
        _loaded = _try_to_compile([])
    return _loaded


def compile_all(*, for_all_users: bool = False) -> int:
    """Compile all declared kernels, or load them from the cache. Returns their number.

    Raises errors of numba, which have many types, and ``OSError`` if the code cannot be kept.
    """
    if for_all_users:
        INSTALLED.mkdir(mode=0o755, exist_ok=True)
        _compile(_kernels, str(INSTALLED))
    elif users_folder() is None:
        raise OSError("no folder for compiled kernels is both writable and private")
    else:
        _compile(_kernels)
    return len(_kernels)


def _try_to_compile(kernels: list[Kernel[Any, Any]]) -> bool:
    try:
        _compile(kernels)
    except Exception as error:
        # numba is optional and fails in many ways: absent, too old for this numpy, a damaged
        # cache. No failure may stop a read, because the plain source runs.
        if not kernels:
            LOG.warning("kernels run interpreted, at 30 times the cost of compiled ones: %s", error)
        return False
    return True


def _compile(kernels: list[Kernel[Any, Any]], kept_in: str | None = None) -> None:
    numba = import_module("numba")
    config = numba.config
    if config.DISABLE_JIT:
        raise ImportError("numba is switched off by NUMBA_DISABLE_JIT")
    # One thread at a time: where the cache is is a setting of the whole process.
    with import_module("numba.core.compiler_lock").global_compiler_lock:
        default_cache = config.CACHE_DIR
        folder = kept_in or default_cache or _find_filled_folder()
        try:
            compile_native()
            for function in _inlined:
                _compile_inlined(function)
            # Kernels own no arrays. Numba's counts of references, at each call of an inlined function with
            # several ways out, would take ten times as long as what it does.
            options = {"cache": bool(folder), "nogil": True, "_nrt": False}
            compiled = []
            for item in kernels:
                own = f"{item.function.__name__}-{digest_of(item.function)}"
                config.CACHE_DIR = str(Path(folder, own)) if folder else default_cache
                compiled.append(numba.njit(item.signature, **options)(item.function))
        finally:
            config.CACHE_DIR = default_cache
    for item, function in zip(kernels, compiled, strict=True):
        item.compiled = function


def _find_filled_folder() -> str | None:
    folder = users_folder()
    if folder is None:
        return None
    with suppress(OSError):  # a full disk, or another process that removes it: missing code is compiled
        fill_folder(folder)
    return str(folder)


@functools.cache
def _compile_inlined(function: Callable[..., Any]) -> None:
    import_module("numba.core.extending").register_jitable(forceinline=True)(function)


def users_folder() -> Path | None:
    """A folder that this user alone can write; None without one."""
    for location in _places():
        try:
            folder = location.expanduser()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.stat()
        except (OSError, RuntimeError):  # read-only, or a user without a home
            continue
        private = status.st_uid == os.getuid() and not status.st_mode & _OF_OTHERS
        if private and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return None


def _places() -> Iterator[Path]:
    yield Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "spark-kafkawire")
    of_user = f"spark-kafkawire-{os.getuid()}"
    with suppress(OSError):  # none can be written
        yield Path(tempfile.gettempdir(), of_user)
    yield _SHARED_MEMORY / of_user


def fill_folder(folder: Path) -> None:
    """Copy missing compiled code to the user's folder from the folder for all users."""
    # Files of code sort before the indexes that name them.
    for source in sorted(INSTALLED.glob("*/*/*.nb[ci]")):
        target = folder / source.relative_to(INSTALLED)
        if not target.exists() and _is_the_installers(source):
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as part:
                part.write(source.read_bytes())
            os.replace(part.name, target)


def _is_the_installers(source: Path) -> bool:
    """Return true if only the owner of the package can have written a file."""
    owner = Path(__file__).stat().st_uid
    statuses = [path.stat() for path in (source, *source.parents[:2], INSTALLED)]
    return all(status.st_uid == owner and not status.st_mode & _OF_OTHERS for status in statuses)
