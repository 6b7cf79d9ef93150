"""Results by content: a folder of JSON files named by the hash of what they were made from.

Only the host writes here. Files are written beside their place and renamed into it, so that a reader never
meets half a file, and the oldest go when the folder is over its size.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

LIMIT_BYTES = 2 << 30
_PRUNE_EVERY = 256


def key_of(*parts: object) -> str:
    """Hash of plain values. Equal values have equal keys, whatever the order of their dicts."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def source_hash(folder: Path, pattern: str = "**/*.py") -> str:
    """Hash of a folder's Python files: what the harness computes changes with its code."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob(pattern)):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


class Store:
    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.folder = folder
        self._limit_bytes = limit_bytes
        self._writes = 0

    def path(self, kind: str, key: str) -> Path:
        return self.folder / kind / key[:2] / f"{key}.json"

    def get(self, kind: str, key: str) -> dict[str, Any] | None:
        """The value, or None. A damaged file counts as absent."""
        path = self.path(kind, key)
        try:
            value = json.loads(path.read_bytes())
        except (OSError, ValueError):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return value if isinstance(value, dict) else None

    def put(self, kind: str, key: str, value: dict[str, Any]) -> Path:
        path = self.path(kind, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                json.dump(value, stream, separators=(",", ":"))
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
        self._writes += 1
        if self._writes % _PRUNE_EVERY == 0:
            self.prune()
        return path

    def prune(self) -> None:
        """Remove the files that were used longest ago, until the folder is within its limit."""
        files = []
        for path in self.folder.rglob("*.json"):
            with contextlib.suppress(OSError):
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._limit_bytes:
                return
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
