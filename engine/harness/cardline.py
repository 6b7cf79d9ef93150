"""The clock's end of its line to one contestant: orders out, answers back within a time."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

LIMIT_BYTES = 4 << 20


class Lost(Exception):
    """A contestant does not answer: it hangs, or its process is gone, or it refuses."""

    def __init__(self, name: str, *, hung: bool) -> None:
        super().__init__(name)
        self.name = name
        self.hung = hung


def resize(descriptor: int, size: int) -> None:
    os.ftruncate(descriptor, size)


class Line:
    def __init__(self, name: str, descriptor: int, nonce: str) -> None:
        self.name = name
        self._socket = socket.socket(fileno=descriptor)
        self._nonce = nonce.encode("ascii") + b" "
        self._buffer = bytearray()

    def tell(self, **order: Any) -> None:
        try:
            self._socket.sendall(json.dumps(order, separators=(",", ":")).encode() + b"\n")
        except OSError:
            raise Lost(self.name, hung=False) from None

    def hear(self, seconds: float) -> dict[str, Any]:
        """The answer to the last order. Raises Lost."""
        self._socket.settimeout(seconds)
        while (end := self._buffer.find(b"\n")) < 0:
            try:
                chunk = self._socket.recv(1 << 16)
            except TimeoutError:
                raise Lost(self.name, hung=True) from None
            except OSError:
                chunk = b""
            if not chunk or len(self._buffer) > LIMIT_BYTES:
                raise Lost(self.name, hung=False)
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        if not line.startswith(self._nonce):
            raise Lost(self.name, hung=False)
        answer = json.loads(line[len(self._nonce) :])
        if not isinstance(answer, dict) or "refused" in answer:
            raise Lost(self.name, hung=False)
        return answer
