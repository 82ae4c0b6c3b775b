"""Digests of kernels: of a kernel's own code and of all code and numbers that become a part of it.

numba takes compiled code from its cache as long as the kernel's own file is the same. A kernel has functions
and constants of other files in it, and in an installed package all files may have one time. So the folder of
the compiled code has a digest in its name: another version of the package never finds it.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from ..version import VERSION
from . import native


@functools.cache
def digest_of(function: Callable[..., Any]) -> str:
    """The digest of a kernel's source function, 16 hexadecimal digits."""
    found = hashlib.sha256(VERSION.encode())
    for part in _parts(function, set()):
        found.update(part.encode() + b"\0")
    # It generates machine code for kernels, in cached functions, too.
    for each in vars(native).values():
        code = getattr(each, "__wrapped__", each)
        if isinstance(code, FunctionType) and code.__module__ == native.__name__:
            found.update("\0".join(_code(code.__code__)).encode())
    return found.hexdigest()[:16]


def _parts(function: Any, seen: set[Any]) -> Iterator[str]:
    """The code of a function, and that of the functions and the constants that it names."""
    seen.add(function)
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
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _code(each)
        else:
            yield repr(each)
