"""What a dialogue with a model is made of, whoever serves it: prompts, replies, tool calls, usage, failures.

Providers turn these into their own protocol and back. Nothing here knows a client library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Stop = Literal["end", "tools", "length", "refusal", "context"]
"""Why a reply ended: by itself, for tools, cut at its length, refused, or the context was full."""

Failure = Literal["key", "rate", "overload", "server", "network", "protocol", "context", "request"]
RETRIED: frozenset[Failure] = frozenset(("rate", "overload", "server", "network", "protocol"))
"""Failures that may pass by themselves; the others say the same a second time."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request. `input` are those that no cache served; `output` includes `thinking`."""

    input: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    thinking: int = 0

    @property
    def total(self) -> int:
        return self.input + self.cached + self.cache_write + self.output

    @property
    def prompt(self) -> int:
        return self.input + self.cached + self.cache_write


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model made. `arguments` is None where they are no JSON object; `problem` says why."""

    id: str
    name: str
    arguments: Mapping[str, Any] | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a dialogue begins with: the stable prefix, shared by all requests, and what changes."""

    prefix: str
    changing: str


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole answer of the model. `message` is the provider's own form of it, sent back unchanged."""

    text: str
    calls: tuple[ToolCall, ...]
    stop: Stop
    usage: Usage
    message: Any = field(repr=False, default=None)
    detail: str = ""
    """What the provider says about why it stopped."""


@dataclass(frozen=True, slots=True)
class Results:
    """What is answered to a reply: (call, text, whether it failed) in the order of the calls, then `text`."""

    results: tuple[tuple[ToolCall, str, bool], ...]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the model may call. `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class ProviderError(Exception):
    """A request failed. The message is one line of untrusted origin; `retry_after_s` is the server's wish."""

    def __init__(self, kind: Failure, text: str, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.kind = kind
        self.retry_after_s = retry_after_s


class Halted(Exception):
    """A limit was reached while a reply streamed; raised through the stream by whoever watches it."""


class Watch:
    """What is known of a request while it streams, so that one that is cut stands in the books too."""

    def __init__(
        self, on_text: Callable[[str], None], on_progress: Callable[[Watch], None] = lambda watch: None
    ) -> None:
        self.usage = Usage()
        self.reported = False
        """Whether the usage of the whole reply was reported."""
        self.characters = 0
        self._on_text = on_text
        self._on_progress = on_progress

    def text(self, piece: str, *, shown: bool = True) -> None:
        """Text, thinking or arguments arrived. May raise to end the stream."""
        self.characters += len(piece)
        if shown and piece:
            self._on_text(piece)
        self._on_progress(self)

    def used(self, usage: Usage, *, whole: bool = False) -> None:
        """The provider told its count. May raise to end the stream."""
        self.usage = usage
        self.reported = whole
        self._on_progress(self)


class Provider(Protocol):
    """One model behind one service."""

    name: str
    model: str
    url: str
    """Where requests go, without credentials."""

    async def reply(
        self,
        prompt: Prompt,
        turns: Sequence[Reply | Results],
        tools: Sequence[Tool],
        max_output: int,
        watch: Watch,
    ) -> Reply:
        """One request, streamed. Raises ProviderError."""
        ...

    async def close(self) -> None: ...


def parse_arguments(text: str) -> tuple[Mapping[str, Any] | None, str]:
    """Arguments of a tool call from their JSON text, and why not."""
    import json

    try:
        value = json.loads(text or "{}", parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        return None, f"the arguments are no JSON: {str(error)[:120]}"
    if not isinstance(value, dict):
        return None, "the arguments are no JSON object"
    return value, ""


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")
