"""The official compiler and runtime of Protobuf, as judges: message classes from texts."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc_tools
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

#: Where the compiler has Protobuf's own schemas.
_OWN = str(Path(grpc_tools.__file__).parent / "_proto")


def compiled(text: str, references: Mapping[str, str] | None = None) -> descriptor_pool.DescriptorPool:
    """A pool with the types of a text, which is called ``root.proto``, and of its imports."""
    with tempfile.TemporaryDirectory() as folder:
        for name, item in {"root.proto": text, **(references or {})}.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(item, encoding="utf-8")
        out = Path(folder, "set.bin")
        code = protoc.main(
            ["protoc", f"-I{folder}", f"-I{_OWN}", "--include_imports", f"-o{out}", "root.proto"]
        )
        assert code == 0, text
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


def message_class(pool: descriptor_pool.DescriptorPool, name: str) -> Any:
    """The class of a message."""
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
