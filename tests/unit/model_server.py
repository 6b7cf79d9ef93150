"""A service on the loopback that speaks a provider's wire protocol over real HTTP, from a script.

Each request takes the next step. A step is a Turn (what the model says, with the usage that is told), or a
fault: an HTTP error, a stream cut after some event, a body that is no protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Turn:
    """One reply. `calls`: (tool, arguments), arguments as a dict or as raw text."""

    text: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    stop: str = ""
    thinking: str = ""
    input: int = 1000
    cached: int = 0
    cache_write: int = 0
    output: int = 100
    thought: int = 0
    piece: int = 40
    """Characters in one event."""
    cut_after: int | None = None
    """Events after which the connection is dropped."""
    cut_cleanly: bool = False
    """End the body in order where it is cut, as a proxy does."""
    told: bool = True
    """Whether usage is told at all."""
    delay_s: float = 0.0
    """Pause before each event."""


@dataclass(frozen=True)
class Fault:
    """An answer without a stream. `body` None: an error in the protocol's form."""

    status: int
    kind: str = "api_error"
    message: str = "made up"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True)
class Garbage:
    """A stream whose body is not the protocol."""

    body: bytes


Step = Turn | Fault | Garbage
Script = Callable[[int, dict[str, Any]], Step]
"""From the number of the request, from 0, and its body."""


@dataclass
class Seen:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    raw: bytes


class ModelServer:
    """Serves `script` until closed. `seen` holds every request, `events` counts those that were sent."""

    def __init__(self, protocol: Literal["anthropic", "openai"], script: Script | Sequence[Step]) -> None:
        self.protocol = protocol
        self._steps = script if callable(script) else _in_order(list(script))
        self.seen: list[Seen] = []
        self.billed: dict[str, int] = dict.fromkeys(("input", "cached", "cache_write", "output"), 0)
        """What was told of replies that were sent whole."""
        self.streaming = asyncio.Event()
        """Set once a stream has begun."""
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}" + ("/v1" if self.protocol == "openai" else "")

    async def __aenter__(self) -> ModelServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the service is closed
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection stays open."""
        line = await reader.readline()
        if not line:
            return False
        headers: dict[str, str] = {}
        while (row := (await reader.readline()).decode().strip()) != "":
            name, _, value = row.partition(":")
            headers[name.lower()] = value.strip()
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        body = json.loads(raw or b"{}")
        self.seen.append(Seen(line.split()[1].decode(), headers, body, raw))
        step = self._steps(len(self.seen) - 1, body)
        if isinstance(step, Fault):
            await self._fault(step, writer)
            return False
        if isinstance(step, Garbage):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            writer.write(step.body)
            await writer.drain()
            return False
        return await self._stream(step, body, writer)

    async def _fault(self, fault: Fault, writer: asyncio.StreamWriter) -> None:
        error = {"type": fault.kind, "message": fault.message}
        form = {"type": "error", "error": error} if self.protocol == "anthropic" else {"error": error}
        content = json.dumps(form).encode() if fault.body is None else fault.body
        head = {"content-type": "application/json", **fault.headers, "content-length": str(len(content))}
        lines = [
            f"HTTP/1.1 {fault.status} X",
            *(f"{k}: {v}" for k, v in head.items()),
            "connection: close",
            "",
            "",
        ]
        writer.write("\r\n".join(lines).encode() + content)
        await writer.drain()

    async def _stream(self, turn: Turn, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        events = anthropic_events(turn, body) if self.protocol == "anthropic" else openai_events(turn, body)
        for number, event in enumerate(events):
            if turn.cut_after is not None and number >= turn.cut_after:
                if turn.cut_cleanly:
                    writer.write(b"0\r\n\r\n")
                await writer.drain()
                return False
            if turn.delay_s:
                await asyncio.sleep(turn.delay_s)
            writer.write(b"%x\r\n%s\r\n" % (len(event), event))
            await writer.drain()
            self.streaming.set()
        writer.write(b"0\r\n\r\n")
        for name in self.billed:
            self.billed[name] += getattr(turn, name)
        await writer.drain()
        return True


def _in_order(steps: list[Step]) -> Script:
    def script(number: int, body: dict[str, Any]) -> Step:
        return steps[min(number, len(steps) - 1)]

    return script


def _pieces(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def _arguments(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def anthropic_events(turn: Turn, body: dict[str, Any]) -> list[bytes]:
    """The stream of one message, as Anthropic's Messages API sends it."""
    usage = {
        "input_tokens": turn.input,
        "cache_read_input_tokens": turn.cached,
        "cache_creation_input_tokens": turn.cache_write,
        "output_tokens": 1,
    }
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", ""),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    data: list[dict[str, Any]] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    index = 0

    def block(start: dict[str, Any], deltas: list[dict[str, Any]]) -> None:
        nonlocal index
        data.append({"type": "content_block_start", "index": index, "content_block": start})
        data.extend({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        data.append({"type": "content_block_stop", "index": index})
        index += 1

    if turn.thinking:
        deltas = [
            {"type": "thinking_delta", "thinking": piece} for piece in _pieces(turn.thinking, turn.piece)
        ]
        deltas.append({"type": "signature_delta", "signature": "c2lnbmF0dXJl"})
        block({"type": "thinking", "thinking": "", "signature": ""}, deltas)
    if turn.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(turn.text, turn.piece)]
        block({"type": "text", "text": ""}, deltas)
    for number, (name, arguments) in enumerate(turn.calls):
        deltas = [
            {"type": "input_json_delta", "partial_json": piece}
            for piece in _pieces(_arguments(arguments), turn.piece)
        ]
        block({"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}, deltas)
    stop = turn.stop or ("tool_use" if turn.calls else "end_turn")
    told = {"output_tokens": turn.output}
    if turn.thought:
        told["output_tokens_details"] = {"thinking_tokens": turn.thought}  # type: ignore[assignment]
    data.append(
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": told}
    )
    data.append({"type": "message_stop"})
    return [f"event: {item['type']}\ndata: {json.dumps(item)}\n\n".encode() for item in data]


def openai_events(turn: Turn, body: dict[str, Any]) -> list[bytes]:
    """The stream of one chat completion, as OpenAI and compatible services send it."""
    data: list[dict[str, Any]] = []

    def chunk(delta: dict[str, Any] | None, finish: str | None = None, **extra: Any) -> None:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        data.append(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": body.get("model", ""),
                "choices": choices,
                **extra,
            }
        )

    chunk({"role": "assistant", "content": ""})
    for piece in _pieces(turn.thinking, turn.piece):
        chunk({"reasoning_content": piece})
    for piece in _pieces(turn.text, turn.piece):
        chunk({"content": piece})
    for number, (name, arguments) in enumerate(turn.calls):
        call = {"index": number, "id": f"call_{number}", "type": "function"}
        chunk({"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]})
        for piece in _pieces(_arguments(arguments), turn.piece):
            chunk({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
    chunk({}, turn.stop or ("tool_calls" if turn.calls else "stop"))
    if turn.told and body.get("stream_options", {}).get("include_usage"):
        usage: dict[str, Any] = {
            "prompt_tokens": turn.input + turn.cached + turn.cache_write,
            "completion_tokens": turn.output,
            "total_tokens": turn.input + turn.cached + turn.cache_write + turn.output,
            "prompt_tokens_details": {"cached_tokens": turn.cached, "cache_write_tokens": turn.cache_write},
            "completion_tokens_details": {"reasoning_tokens": turn.thought},
        }
        chunk(None, usage=usage)
    lines = [f"data: {json.dumps(item)}\n\n".encode() for item in data]
    return [*lines, b"data: [DONE]\n\n"]
