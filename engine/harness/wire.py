"""How a child of the zygotes talks with the host: one JSON object a line over a socket pair.

What the host says is plain JSON. What a child says begins with a nonce that it was told before any
candidate code was loaded, so that lines which something else writes into the descriptor are noticed.
The text that a candidate prints goes to a file and is never read as an answer.
"""

from __future__ import annotations

import json
import socket
from typing import Any

LINE_LIMIT = 64 * 1024 * 1024
"""Bytes in one line, either way."""

DETAIL_LIMIT = 400


def one_line(text: object, limit: int = DETAIL_LIMIT) -> str:
    """Text of untrusted origin as one bounded, printable line."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


class Wire:
    """The child's end. Blocking; used by one thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()
        self._nonce = b""

    def fileno(self) -> int:
        return self._connection.fileno()

    def trust(self, nonce: str) -> None:
        """Every line sent from now on begins with this nonce."""
        self._nonce = nonce.encode("ascii") + b" "

    def receive(self) -> dict[str, Any]:
        """The next object from the host. Raises EOFError when the host is gone."""
        while (end := self._buffer.find(b"\n")) < 0:
            chunk = self._connection.recv(1 << 16)
            if not chunk:
                raise EOFError("the host closed the channel")
            self._buffer += chunk
            if len(self._buffer) > LINE_LIMIT:
                raise EOFError("the host sent a line beyond the limit")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        message: dict[str, Any] = json.loads(line)
        return message

    def send(self, **message: Any) -> None:
        line = json.dumps(message, separators=(",", ":")).encode("utf-8")
        self._connection.sendall(self._nonce + line + b"\n")
