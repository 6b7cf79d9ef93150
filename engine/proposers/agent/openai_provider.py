"""Any service that speaks OpenAI's chat completions, through OpenAI's client library: streamed, with tools.

Ollama, vLLM, llama.cpp and OpenRouter differ in details that are met here: some report no usage, some think
in a field of their own, some leave out ids of tool calls.
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

OWN_URL = "https://api.openai.com/v1"
CONNECT_S = 10.0
SILENCE_S = 600.0
"""A model on the user's own machine may read a long prompt for minutes before its first token."""

_STOPS: dict[str, Stop] = {
    "stop": "end",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refusal",
}
NO_KEY = "none"
"""What the library sends where a service on this machine asks for no key."""


class OpenAI:
    """One model behind chat completions."""

    name = "openai"

    def __init__(
        self,
        key: str | None,
        *,
        model: str,
        url: str,
        effort: str | None = None,
    ) -> None:
        import openai

        self.model = model
        self.url = url
        self.effort = effort
        self._usage = True
        timeout = openai.Timeout(SILENCE_S, connect=CONNECT_S)
        self._client = openai.AsyncOpenAI(
            api_key=key or NO_KEY, base_url=url, max_retries=0, timeout=timeout, organization="", project=""
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
            if error.kind != "request" or "stream_options" not in str(error) or "stream_options" not in body:
                raise
            self._usage = False  # an older compatible service
            body.pop("stream_options")
            return await self._stream(body, watch)

    def _body(
        self, prompt: Prompt, turns: Sequence[Reply | Results], tools: Sequence[Tool], max_output: int
    ) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": prompt.prefix},
            {"role": "user", "content": prompt.changing},
        ]
        for turn in turns:
            if isinstance(turn, Reply):
                messages.append(turn.message)
                continue
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": text or "(nothing)"}
                for call, text, _ in turn.results
            ]
            if turn.text or not turn.results:
                messages.append({"role": "user", "content": turn.text or "Go on."})
        own = self.url == OWN_URL
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": dict(tool.parameters),
                    },
                }
                for tool in tools
            ],
            "max_completion_tokens" if own else "max_tokens": max_output,
        }
        if self._usage:
            body["stream_options"] = {"include_usage": True}
        if self.effort:
            body["reasoning_effort"] = self.effort
        return body

    async def _stream(self, body: dict[str, Any], watch: Watch) -> Reply:
        reading = _Reading(watch)
        try:
            stream = await self._client.chat.completions.create(**body, stream=True)
            async with stream:
                async for chunk in stream:
                    reading.take(chunk)
        except (ProviderError, Halted):
            raise
        except Exception as error:  # noqa: BLE001  transports raise classes of their own
            raise failure_of(error) from None
        return reading.reply()


class _Reading:
    """One streamed completion, put together chunk by chunk."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.text: list[str] = []
        self.refusal: list[str] = []
        self.calls: dict[int, dict[str, str]] = {}
        self.stop: Stop | None = None
        self.usage = Usage()

    def take(self, chunk: Any) -> None:
        if getattr(chunk, "usage", None) is not None:
            self._count(chunk.usage)
        for choice in getattr(chunk, "choices", None) or ():
            delta = choice.delta
            if delta is not None:
                self._delta(delta)
            if choice.finish_reason:
                self.stop = _STOPS.get(choice.finish_reason, "end")

    def _delta(self, delta: Any) -> None:
        if delta.content:
            self.text.append(delta.content)
            self.watch.text(delta.content)
        if getattr(delta, "refusal", None):
            self.refusal.append(delta.refusal)
            self.watch.text(delta.refusal)
        thought = getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None)
        if isinstance(thought, str):
            self.watch.text(thought)
        for part in delta.tool_calls or ():
            call = self.calls.setdefault(part.index or 0, {"id": "", "name": "", "arguments": ""})
            call["id"] = call["id"] or part.id or ""
            if part.function is not None:
                call["name"] += part.function.name or ""
                call["arguments"] += part.function.arguments or ""
                self.watch.text(part.function.arguments or "", shown=False)

    def _count(self, told: Any) -> None:
        before, after = (
            getattr(told, name, None) for name in ("prompt_tokens_details", "completion_tokens_details")
        )
        cached, written = _number(before, "cached_tokens"), _number(before, "cache_write_tokens")
        self.usage = Usage(
            input=max(0, _number(told, "prompt_tokens") - cached - written),
            cached=cached,
            cache_write=written,
            output=_number(told, "completion_tokens"),
            thinking=_number(after, "reasoning_tokens"),
        )
        self.watch.used(self.usage, whole=self.stop is not None)

    def reply(self) -> Reply:
        if self.stop is None:
            raise ProviderError("network", "the stream ended before the reply did")
        text = "".join(self.text)
        calls = []
        for index in sorted(self.calls):
            call = self.calls[index]
            arguments, problem = parse_arguments(call["arguments"])
            calls.append(ToolCall(call["id"] or f"call_{index}", call["name"], arguments, problem))
            if problem:
                call["arguments"] = "{}"  # what is no JSON is not sent back: services refuse it
        stop: Stop = "refusal" if self.refusal and not calls else self.stop
        if calls and stop == "end":
            stop = "tools"
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = [
                {
                    "id": made.id,
                    "type": "function",
                    "function": {"name": made.name, "arguments": self.calls[index]["arguments"] or "{}"},
                }
                for made, index in zip(calls, sorted(self.calls), strict=True)
            ]
        elif not text:
            message["content"] = "(nothing)"
        return Reply(text, tuple(calls), stop, self.usage, message, "".join(self.refusal))


def _number(told: Any, name: str) -> int:
    value = getattr(told, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
