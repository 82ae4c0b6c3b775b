"""Compilation of kernels: the moment of it, on which nothing depends."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

from spark_kafkawire import records
from spark_kafkawire.compile_kernels import MODULES
from spark_kafkawire.records import compiler, native

# Each imports and compiles in a process of its own.
pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
DECODE = """
import sys
from spark_kafkawire import decode_message_set, encode_message_set
from spark_kafkawire.records import compiler
"""


def run(program: str, warns: str = "", **environment: str) -> str:
    """Output of a program in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", DECODE + program],
        cwd=REPOSITORY,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert warns in done.stderr
    return done.stdout.strip()


def test_ten_messages_do_not_import_numba_and_many_do_once_they_repay_it() -> None:
    program = """
for compression in ("none", "gzip", "snappy"):
    data = encode_message_set([b"value"] * 10, compression)
    assert decode_message_set(data).num_rows == 10
assert "numba" not in sys.modules and not compiler.loaded()
compiler._rows_expected = 0
data = encode_message_set([b"value"] * 1000)
for _ in range(compiler.ROWS_REPAY // 1000 - 2):
    decode_message_set(data)
assert "numba" not in sys.modules
decode_message_set(data), decode_message_set(data)
print("numba" in sys.modules, compiler.loaded())
"""
    assert run(program) == "True True"


def test_one_large_buffer_loads_numba_before_it_is_indexed() -> None:
    program = """
data = encode_message_set([b"value"] * 1000) * 200
compiler._rows_expected = 0
decode_message_set(data)
print(compiler.loaded())
"""
    assert run(program) == "True"


@pytest.mark.parametrize("variable", ["NUMBA_DISABLE_JIT", "NO_NUMBA"])
def test_where_kernels_cannot_be_compiled_they_run_interpreted(variable: str) -> None:
    program = """
import os
if "NO_NUMBA" in os.environ:
    sys.modules["numba"] = None
assert not compiler.load() and not compiler.load()
data = encode_message_set([b"value"] * 100, "snappy")
print(compiler.loaded(), decode_message_set(data).num_rows)
"""
    warning = "kernels run interpreted, at 30 times the cost of compiled ones: "
    assert run(program, warning, **{variable: "1"}) == "False 100"


def test_where_nothing_can_be_kept_a_process_compiles_once_its_rows_repay_that(tmp_path: Path) -> None:
    program = """
import pathlib
def refuse(*args, **kwargs):
    raise PermissionError("read-only")
pathlib.Path.mkdir = refuse
data = encode_message_set([b"value"] * 1000)
compiler._rows_expected = compiler.ROWS_REPAY
decode_message_set(data)
assert "numba" not in sys.modules
compiler._rows_expected = compiler.ROWS_REPAY_COMPILING
print(decode_message_set(data).num_rows, compiler.loaded())
"""
    assert run(program, XDG_CACHE_HOME=str(tmp_path)) == "1000 True"
    assert not list(tmp_path.iterdir())


def test_what_all_users_have_is_compiled_by_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed, own = tmp_path / "installed", tmp_path / "own"
    monkeypatch.setattr(compiler, "INSTALLED", installed)
    kernel = compiler.Kernel(_twice, "int64(int64)")
    monkeypatch.setattr(compiler, "_kernels", [kernel])
    assert compiler.compile_all(for_all_users=True) == 1
    kept = {file.relative_to(installed): file.read_bytes() for file in installed.rglob("*.nb?")}
    assert {path.suffix for path in kept} == {".nbi", ".nbc"}

    monkeypatch.setenv("XDG_CACHE_HOME", str(own))
    assert compiler.Kernel(_twice, "int64(int64)").compile()
    result = {file.relative_to(own / "spark-kafkawire"): file for file in own.rglob("*.nb?")}
    assert {path: file.read_bytes() for path, file in result.items()} == kept


def test_what_others_can_have_written_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed, own = tmp_path / "installed", tmp_path / "own"
    monkeypatch.setattr(compiler, "INSTALLED", installed)
    file = installed / "of_a_kernel" / "of_a_module" / "kernel.nbc"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"code")
    own.mkdir()
    for path in (file, file.parent, file.parents[1], installed):
        path.chmod(0o777)
        compiler.fill_folder(own)
        assert not list(own.iterdir())
        path.chmod(0o755)
    compiler.fill_folder(own)
    assert (own / file.relative_to(installed)).read_bytes() == b"code"


UPGRADED = """
import importlib.util, os
from numba.core import config
path = os.environ["KERNEL"]
def loaded(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(path, name + ".py"))
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
loaded("kernel_parts")
kernel = loaded("kernel_of_a_test").double
assert kernel.compile()
print(kernel(21), sum(kernel.compiled.stats.cache_hits.values()))
"""


def test_a_kernel_is_compiled_again_after_a_change_in_another_file(tmp_path: Path) -> None:
    """An upgrade may leave the kernel's own file as it was, or give all files one time."""
    environment = {"KERNEL": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    (tmp_path / "kernel_of_a_test.py").write_text(
        "from spark_kafkawire.records.compiler import kernel\n"
        "from kernel_parts import OFFSET, doubled\n"
        "@kernel('int64(int64)')\n"
        "def double(number):\n"
        "    return doubled(number) + OFFSET\n"
    )
    parts = "from spark_kafkawire.records.compiler import inlined\nOFFSET = {}\nFACTOR = {}\n"
    parts += "@inlined\ndef doubled(number):\n    return FACTOR * number\n"
    results = []
    for offset, factor in ((0, 2), (1, 2), (1, 3), (0, 2)):
        (tmp_path / "kernel_parts.py").write_text(parts.format(offset, factor))
        os.utime(tmp_path / "kernel_parts.py", (0, 0))
        results.append(run(UPGRADED, **environment))
    assert results == ["42 0", "43 0", "64 0", "42 1"]


def test_a_digest_is_the_same_in_all_processes_of_one_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels = "from spark_kafkawire.records.compiler import digest_of\n"
    kernels += "from spark_kafkawire import compile_kernels\n"
    kernels += "print(*sorted(digest_of(each.function) for each in compiler._kernels))"
    result = {run(kernels, PYTHONHASHSEED=seed) for seed in ("1", "2")}
    assert len(result) == 1
    assert len(set(result.pop().split())) > 20
    before = compiler.digest_of(_twice)
    compiler.digest_of.cache_clear()
    monkeypatch.setattr(compiler, "VERSION", "0.0.1")
    assert compiler.digest_of(_twice) != before
    monkeypatch.undo()
    changed = functools.cache(lambda: 1)
    changed.__wrapped__.__module__ = native.__name__
    for name in ("copy", "compile_native"):
        with monkeypatch.context() as patch:
            patch.setattr(native, name, changed)
            compiler.digest_of.cache_clear()
            assert compiler.digest_of(_twice) != before
    with monkeypatch.context() as patch:  # a function that moves to another module
        patch.setattr(_twice, "__module__", "elsewhere")
        compiler.digest_of.cache_clear()
        assert compiler.digest_of(_twice) != before
    compiler.digest_of.cache_clear()


def test_threads_that_load_at_once_keep_to_the_users_cache_too(tmp_path: Path) -> None:
    program = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError
from numba.core import config
before = config.CACHE_DIR
# Threads meet where the cache is changed, or wait for each other in vain.
both, met, compile_native = Barrier(2), [], compiler.compile_native
def meet():
    try:
        met.append(both.wait(1))
    except BrokenBarrierError:
        pass
    compile_native()
compiler.compile_native = meet
with ThreadPoolExecutor(2) as pool:
    assert all(pool.map(lambda kernel: kernel.compile(), compiler._kernels[:2]))
assert not met, met
print(config.CACHE_DIR == before)
"""
    assert run(program, XDG_CACHE_HOME=str(tmp_path)) == "True"
    assert list(tmp_path.glob("spark-kafkawire/**/*.nbi"))
    assert not list((REPOSITORY / "spark_kafkawire").rglob("*.nbi"))


def test_a_cache_of_the_users_own_choice_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    kernel = compiler.Kernel(_twice, "int64(int64)")
    compiler._compile([kernel])
    assert kernel(21) == 42
    assert list(tmp_path.rglob("*.nbi"))


def test_a_folder_that_others_write_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "spark-kafkawire"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compiler.users_folder() != shared
    shared.chmod(0o700)
    assert compiler.users_folder() == shared


def test_a_user_without_a_home_still_has_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/proc/no-such-folder")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert compiler.users_folder() == tmp_path / f"spark-kafkawire-{os.getuid()}"


def test_a_kernel_is_compiled_at_its_first_call_after_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_kernels", list(compiler._kernels))
    monkeypatch.setattr(compiler, "_loaded", False)
    kernel = compiler.kernel("int64(int64)")(_twice)
    assert kernel(21) == 42
    assert kernel.compiled is None
    monkeypatch.setattr(compiler, "_loaded", True)
    assert kernel(21) == kernel.run_interpreted(21) == 42
    assert kernel.compiled not in (None, kernel.run_interpreted)


def test_a_kernel_that_cannot_be_compiled_stays_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiler.load()
    monkeypatch.setattr(compiler, "_kernels", list(compiler._kernels))
    kernel = compiler.kernel("no type at all")(_twice)
    assert [kernel(21), kernel(21)] == [42, 42]
    assert not kernel.compile()


def _twice(number: int) -> int:
    return 2 * number


@pytest.mark.usefixtures("compiled")
def test_every_kernel_of_every_format_can_be_compiled() -> None:
    # A kernel is known once its module is imported.
    for module in walk_packages(records.__path__, f"{records.__name__}."):
        import_module(module.name)
    kernels = [item for item in compiler._kernels if item.function.__module__.startswith(records.__name__)]
    declaring = {module.__name__ for module in MODULES if module.__name__.startswith(records.__name__)}
    assert {item.function.__module__ for item in kernels} == declaring
    assert all(item.compile() for item in kernels)
