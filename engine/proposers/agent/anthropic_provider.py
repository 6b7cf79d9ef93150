"""Anthropic's Messages API through its own client library: streamed, with tools, thinking and prompt caching.

The stable prefix is the system prompt, behind the tools, and ends in a cache mark; a second mark moves along
with the dialogue. Content blocks, thinking included, are sent back as they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_lab.engine.proposers.agent.failures import failure_of
from kernel_lab.engine.proposers.agent.wire import (
    Halted,
    Prompt,
    ProviderError,
    Reply,
    Results,
    Stop,
    Tool,
    ToolCall,
    Usage,
    Watch,
    parse_arguments,
)

CONNECT_S = 10.0
SILENCE_S = 180.0
"""A stream that says nothing for this long is given up; the service pings more often."""

BUDGET_THINKERS = ("claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5")
"""Models that think within a budget of tokens; later ones decide by themselves."""
THINKING_BUDGET = 8_000

MARK = {"cache_control": {"type": "ephemeral"}}
_STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "refusal": "refusal",
    "model_context_window_exceeded": "context",
}


class Anthropic:
    """One model of the Messages API. `key` is sent as the API key, or as a bearer token if `bearer`."""

    name = "anthropic"

    def __init__(
        self,
        key: str,
        *,
        model: str,
        url: str,
        effort: str | None = None,
        bearer: bool = False,
    ) -> None:
        import anthropic

        self.model = model
        self.url = url
        self.effort = effort
        self._thinks = model.startswith("claude-")
        self._client = anthropic.AsyncAnthropic(
            api_key=None if bearer else key,
            auth_token=key if bearer else None,
            base_url=url,
            max_retries=0,
            timeout=anthropic.Timeout(SILENCE_S, connect=CONNECT_S),
        )

    async def close(self) -> None:
        await self._client.close()

    async def reply(
        self,
        prompt: Prompt,
        turns: Sequence[Reply | Results],
        tools: Sequence[Tool],
        max_output: int,
        watch: Watch,
    ) -> Reply:
        """One request, streamed. Raises ProviderError."""
        body = self._body(prompt, turns, tools, max_output)
        try:
            return await self._stream(body, watch)
        except ProviderError as error:
            if error.kind != "request" or "thinking" not in str(error) or "thinking" not in body:
                raise
            self._thinks = False  # a compatible service that does not know it
            body.pop("thinking")
            return await self._stream(body, watch)

    def _body(
        self, prompt: Prompt, turns: Sequence[Reply | Results], tools: Sequence[Tool], max_output: int
    ) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [{"role": "user", "content": [_text(prompt.changing)]}]
        for turn in turns:
            if isinstance(turn, Reply):
                messages.append({"role": "assistant", "content": turn.message or [_text("(nothing)")]})
            else:
                messages.append({"role": "user", "content": _results(turn)})
        last = messages[-1]["content"]
        last[-1] = {**last[-1], **MARK}
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": max_output,
            "tools": [
                {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
                for tool in tools
            ],
            "system": [{**_text(prompt.prefix), **MARK}],
            "messages": messages,
        }
        if self._thinks and not self.model.startswith(BUDGET_THINKERS):
            body["thinking"] = {"type": "adaptive", "display": "summarized"}
        elif self._thinks and max_output > 2 * THINKING_BUDGET:
            body["thinking"] = {"type": "enabled", "budget_tokens": THINKING_BUDGET}
        if self.effort:
            body["output_config"] = {"effort": self.effort}
        return body

    async def _stream(self, body: dict[str, Any], watch: Watch) -> Reply:
        reading = _Reading(watch)
        try:
            stream = await self._client.messages.create(**body, stream=True)
            async with stream:
                async for event in stream:
                    reading.take(event)
        except (ProviderError, Halted):
            raise
        except Exception as error:  # noqa: BLE001  transports raise classes of their own
            raise failure_of(error) from None
        return reading.reply()


class _Reading:
    """One streamed message, put together event by event."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.blocks: dict[int, dict[str, Any]] = {}
        self.parts: dict[int, list[str]] = {}
        self.usage = Usage()
        self.stop: Stop | None = None
        self.detail = ""
        self.ended = False

    def take(self, event: Any) -> None:
        match event.type:
            case "message_start":
                self._count(event.message.usage)
            case "content_block_start":
                self.blocks[event.index] = event.content_block.model_dump(exclude_none=True)
                self.parts[event.index] = []
            case "content_block_delta":
                self._delta(event.index, event.delta)
            case "message_delta":
                self.stop = _STOPS.get(event.delta.stop_reason or "", "end")
                explanation = getattr(getattr(event.delta, "stop_details", None), "explanation", None)
                self.detail = str(explanation or "")
                self._count(event.usage)
            case "message_stop":
                self.ended = True
                self.watch.used(self.usage, whole=True)
            case _:
                pass  # what a later protocol adds

    def _delta(self, index: int, delta: Any) -> None:
        block, parts = self.blocks[index], self.parts[index]
        match delta.type:
            case "text_delta":
                parts.append(delta.text)
                self.watch.text(delta.text)
            case "thinking_delta":
                parts.append(delta.thinking)
                self.watch.text(delta.thinking)
            case "signature_delta":
                block["signature"] = delta.signature
            case "input_json_delta":
                parts.append(delta.partial_json)
                self.watch.text(delta.partial_json, shown=False)
            case _:
                pass

    def _count(self, told: Any) -> None:
        """Counts are cumulative, and each event tells those that it knows."""
        details = getattr(told, "output_tokens_details", None)
        self.usage = Usage(
            input=_number(told, "input_tokens", self.usage.input),
            cached=_number(told, "cache_read_input_tokens", self.usage.cached),
            cache_write=_number(told, "cache_creation_input_tokens", self.usage.cache_write),
            output=_number(told, "output_tokens", self.usage.output),
            thinking=_number(details, "thinking_tokens", self.usage.thinking),
        )
        self.watch.used(self.usage)

    def reply(self) -> Reply:
        if not self.ended or self.stop is None:
            raise ProviderError("network", "the stream ended before the reply did")
        texts, calls, message = [], [], []
        for index in sorted(self.blocks):
            block, joined = self.blocks[index], "".join(self.parts[index])
            if block["type"] == "text":
                block["text"] = joined
                texts.append(joined)
            elif block["type"] == "thinking":
                block["thinking"] = joined
            elif block["type"] == "tool_use":
                arguments, problem = parse_arguments(joined)
                calls.append(ToolCall(str(block["id"]), str(block["name"]), arguments, problem))
                block["input"] = dict(arguments or {})
            if block["type"] != "text" or joined.strip():  # an empty text is refused when it is sent back
                message.append(block)
        return Reply("".join(texts), tuple(calls), self.stop, self.usage, message, self.detail)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _results(turn: Results) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": call.id, "content": text or "(nothing)", "is_error": failed}
        for call, text, failed in turn.results
    ]
    if turn.text or not content:
        content.append(_text(turn.text or "Go on."))
    return content


def _number(told: Any, name: str, before: int) -> int:
    value = getattr(told, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else before
