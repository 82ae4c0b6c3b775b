"""Machine code that kernels call: ``memcpy``, and a library's CRC-32, CRC-32C and CRC-64.

Interpreted, these are plain Python functions; ``compile_native`` gives them their compiled forms.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from isal import isal_zlib

#: Test input of CRC functions.
CHECKED: Final = b"123456789"


def copy(target: Any, target_pos: int, source: Any, source_pos: int, size: int) -> None:
    """Copy bytes between arrays inside a kernel. Compiled, this is ``memcpy``: bounds are the caller's."""
    target[target_pos : target_pos + size] = source[source_pos : source_pos + size]


def library_crc32(address: int, source: Any, pos: int, size: int) -> int:
    """The CRC-32 of bytes inside a kernel. Compiled, this calls the C function at ``address``, which is
    ``checksum.library_address``: bounds are the caller's."""
    del address  # interpreted, the library is called as any other
    return int(isal_zlib.crc32(source[pos : pos + size]))


def library_crc32c(address: int, source: Any, pos: int, size: int) -> int:
    """The same for the CRC-32C, with ``checksum.crc32c_address``."""
    from crc32c import crc32c  # reads of 0.7 do not need it

    del address
    return int(crc32c(source[pos : pos + size]))


def library_crc64(function: int, crc: int, address: int, size: int) -> int:
    """The CRC-64 of ``size`` bytes at an address, by the C function at the address ``function``, after bytes
    with the CRC-64 ``crc``: signed numbers. Bounds are the caller's."""
    return _c_crc64(function)(crc, address, size)


@functools.cache
def _c_crc64(function: int) -> Callable[[int, int, int], int]:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint64)(function)


def address_of(name: str, types: Sequence[Any], arguments: tuple[object, ...], expected: int) -> int:
    """Address of a function of ISA-L that returns what is expected; 0 without one. ``types`` are those of its
    result and its arguments."""
    try:
        function = ctypes.CDLL(isal_zlib.__file__)[name]
    except (AttributeError, OSError):  # another build of the library, which shows Python's names only
        return 0
    function.restype, *function.argtypes = types
    return ctypes.cast(function, ctypes.c_void_p).value or 0 if function(*arguments) == expected else 0


@functools.cache
def compile_native() -> None:
    """Give the functions of this module their compiled forms."""
    _compile_copy()
    _compile_library_crc(library_crc32, 0, lambda data, size, crc: [crc, data, size])
    # Its size is an int: the processor ignores the rest of the register.
    _compile_library_crc(library_crc32c, 0xFFFFFFFF, lambda data, size, crc: [data, size, crc])
    _compile_library_crc64()


def _compile_copy() -> None:
    """Give ``copy`` its compiled form, for a loop over bytes or a slice is 4 to 13 times slower."""
    types = import_module("numba").types
    cgutils = import_module("numba.core.cgutils")
    extending = import_module("numba.extending")

    def memcpy(_: Any, target: Any, target_pos: Any, source: Any, source_pos: Any, size: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            to_array, to_pos, from_array, from_pos, count = args
            to_data = context.make_array(signature.args[0])(context, builder, to_array).data
            from_data = context.make_array(signature.args[2])(context, builder, from_array).data
            to_place = builder.gep(to_data, [to_pos])
            from_place = builder.gep(from_data, [from_pos])
            cgutils.raw_memcpy(builder, to_place, from_place, count, 1)
            return context.get_dummy_value()

        del target_pos, source_pos, size  # these are int64, whatever is passed
        int64 = types.int64
        return types.void(target, int64, source, int64, int64), generate

    intrinsic = extending.intrinsic(memcpy)

    def call(target: Any, target_pos: Any, source: Any, source_pos: Any, size: Any) -> Any:
        intrinsic(target, target_pos, source, source_pos, size)

    def overload(target: Any, target_pos: Any, source: Any, source_pos: Any, size: Any) -> Any:
        del target, target_pos, source, source_pos, size  # one form for all types
        return call

    extending.overload(copy)(overload)


def _compile_library_crc(of: Callable[..., int], mask: int, in_order: Callable[..., list[Any]]) -> None:
    """Give a function its compiled form: ``uint32 f(...)`` is called with the bytes, their size and ``mask``,
    as ``in_order`` returns them. A CRC begins with ``mask``, whose bits are inverted in the end.
    """
    types = import_module("numba").types
    ir = import_module("llvmlite.ir")
    extending = import_module("numba.extending")

    def crc(_: Any, address: Any, source: Any, pos: Any, size: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            at, array, from_pos, count = args
            data = context.make_array(signature.args[1])(context, builder, array).data
            uint32 = ir.IntType(32)
            values = in_order(builder.gep(data, [from_pos]), count, uint32(mask))
            function_type = ir.FunctionType(uint32, [value.type for value in values])
            function = builder.inttoptr(at, function_type.as_pointer())
            return builder.zext(builder.call(function, values), ir.IntType(64))

        del address, pos, size  # these are int64, whatever is passed
        return types.int64(types.int64, source, types.int64, types.int64), generate

    intrinsic = extending.intrinsic(crc)

    def call(address: Any, source: Any, pos: Any, size: Any) -> Any:
        return intrinsic(address, source, pos, size) ^ mask

    def overload(address: Any, source: Any, pos: Any, size: Any) -> Any:
        del address, source, pos, size  # one form for all types
        return call

    extending.overload(of)(overload)


def _compile_library_crc64() -> None:
    """Give ``library_crc64`` its compiled form: ``uint64 f(uint64 crc, bytes *, uint64 size)`` is called."""
    types = import_module("numba").types
    ir = import_module("llvmlite.ir")
    extending = import_module("numba.extending")

    def crc64(_: Any, function: Any, crc: Any, address: Any, size: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            del context, signature
            at, before, location, count = args
            int64, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
            function_type = ir.FunctionType(int64, [int64, pointer, int64])
            called = builder.inttoptr(at, function_type.as_pointer())
            return builder.call(called, [before, builder.inttoptr(location, pointer), count])

        del function, crc, address, size  # these are int64, whatever is passed
        return types.int64(types.int64, types.int64, types.int64, types.int64), generate

    intrinsic = extending.intrinsic(crc64)

    def call(function: Any, crc: Any, address: Any, size: Any) -> Any:
        return intrinsic(function, crc, address, size)

    def overload(function: Any, crc: Any, address: Any, size: Any) -> Any:
        del function, crc, address, size  # one form for all types
        return call

    extending.overload(library_crc64)(overload)
