"""When the kernels are compiled, and where the compiled code is kept.

A kernel is a plain Python function over arrays. It runs interpreted until the rows that went
through kernels in this process would have repaid loading numba (``ROWS_REPAY``); from then on all
kernels run compiled. Where there is no safe place for the compiled code (``kernel_cache``), each process
compiles for itself, and waits for so many rows as repay that. Where numba is missing or switched off, they
stay interpreted: slower, with the same results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, Generic, ParamSpec, TypeVar

import numpy as np

from ..errors import LOG
from . import kernel_cache
from .native import compile_native

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
#: The same where nothing is kept, so that each process compiles the kernels of a read or a write: 1 to 1.5 s.
ROWS_REPAY_COMPILING: Final = 1_000_000
#: Interpreted, a record of magic 2 takes as long as so many of 0.7's messages: 3.7 to 4.2 us.
RECORD_COST: Final = 2


class Kernel(Generic[P, R]):
    """A loop over arrays, called with numpy arrays, tuples of them and integers, interpreted or compiled.

    The source must mean the same in Python and in numba: interpreted, arrays are memoryviews, so
    that elements are Python integers; compiled, integers are 64 bit and nothing checks bounds. So a
    kernel neither allocates nor raises: positions and codes come back, and the callers make errors of
    them. Kernels check the bounds that come from peers' bytes, their callers all others.
    """

    def __init__(self, function: Callable[P, R], signature: str) -> None:
        self.function = function
        self.signature = signature
        self.compiled: Callable[P, R] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.compiled is None:
            if not loaded():
                return self.interpreted(*args, **kwargs)
            self.compile()
        assert self.compiled is not None
        return self.compiled(*args, **kwargs)

    def compile(self) -> bool:
        """Compile it, or fetch it from the cache; False where that fails, and it stays interpreted."""
        done = _try_to_compile([self])
        if not done:
            self.compiled = self.interpreted
        return done

    def interpreted(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the Python source itself."""
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
#: Whether kernels run compiled; None until that is decided.
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
    """Tell that so many rows are about to go through kernels; whether they will run compiled.

    Loads numba once the rows of this process repay it. Callers that know of a large range ahead
    of time may tell it before its first byte is there.
    """
    global _rows_expected
    _rows_expected += rows
    return load() if _loaded is None and _repays_loading() else loaded()


def _repays_loading() -> bool:
    if _rows_expected > ROWS_REPAY_COMPILING:
        return True
    return _rows_expected > ROWS_REPAY and kernel_cache.users_folder() is not None


def loaded() -> bool:
    """Whether kernels run compiled now."""
    return bool(_loaded)


def load() -> bool:
    """Load numba, so that each kernel is compiled when it is first called; False where that cannot be, which
    a warning tells once.

    A task needs few of the kernels, and compiling one takes 0.2 to 0.6 s.
    """
    global _loaded
    if _loaded is None:
        _loaded = _try_to_compile([])
    return _loaded


def compile_all(*, for_all_users: bool = False) -> int:
    """Compile all kernels that are declared, or fetch them from the cache; how many there are.

    Raises what numba raises, of which there is much, and ``OSError`` where they cannot be kept.
    """
    if for_all_users:
        kernel_cache.INSTALLED.mkdir(mode=0o755, exist_ok=True)
        _compile(_kernels, str(kernel_cache.INSTALLED))
    elif kernel_cache.users_folder() is None:
        raise OSError("no folder for compiled kernels is both writable and private")
    else:
        _compile(_kernels)
    return len(_kernels)


def _try_to_compile(kernels: list[Kernel[Any, Any]]) -> bool:
    try:
        _compile(kernels)
    except Exception as error:
        # numba is optional and fails in many ways: absent, too old for this numpy, a damaged
        # cache. None of them may stop a read, for the source itself runs.
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
        folder = kept_in or default_cache or _filled_folder()
        config.CACHE_DIR = folder or default_cache
        try:
            compile_native()
            for function in _inlined:
                _compile_inlined(function)
            compiled = [
                numba.njit(each.signature, cache=bool(folder), nogil=True)(each.function) for each in kernels
            ]
        finally:
            config.CACHE_DIR = default_cache
    for each, function in zip(kernels, compiled, strict=True):
        each.compiled = function


def _filled_folder() -> str | None:
    folder = kernel_cache.users_folder()
    if folder is None:
        return None
    with suppress(OSError):  # a full disk, or another process that removes it: what is missing is compiled
        kernel_cache.fill(folder)
    return str(folder)


@functools.cache
def _compile_inlined(function: Callable[..., Any]) -> None:
    import_module("numba.core.extending").register_jitable(forceinline=True)(function)
