"""Taking keys out of every text that came back from a provider, also where a stream cut one in two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

SHOWN = "[key]"
SHORTEST = 8
"""What is shorter is no key, and would take words apart."""


class Redactor:
    """Replaces every one of `secrets` by `[key]`."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first: one key may begin another.
        self._secrets = sorted({s for s in secrets if len(s) >= SHORTEST}, key=lambda s: (-len(s), s))

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, SHOWN)
        return text

    def value(self, value: Any) -> Any:
        """The same for every text within plain values."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, Mapping):
            return {self(str(key)): self.value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        return value

    def held_back(self, text: str) -> int:
        """How many characters at the end may be the beginning of a key."""
        for length in range(min(len(text), max(map(len, self._secrets), default=1) - 1), 0, -1):
            if any(secret.startswith(text[-length:]) for secret in self._secrets):
                return length
        return 0


class RedactedStream:
    """Pieces in, pieces out without keys: an end that may become a key waits for what follows."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._rest = ""

    def feed(self, piece: str) -> str:
        text = self._redactor(self._rest + piece)
        held = self._redactor.held_back(text)
        self._rest = text[len(text) - held :]
        return text[: len(text) - held]

    def flush(self) -> str:
        rest, self._rest = self._rest, ""
        return rest
