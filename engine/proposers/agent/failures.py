"""What a client library's exception means: whether it may pass by itself, and one line that says it.

Libraries differ in their classes, not in what they carry: a status, headers, and a body with a type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kernel_lab.engine.proposers.agent.wire import Failure, ProviderError

MESSAGE_LIMIT = 240
RETRY_AFTER_LIMIT_S = 600.0

_CONTEXT = re.compile(
    r"context.{0,12}(length|window|size|limit)|prompt is too long|too many tokens|maximum context"
    r"|exceeds? .{0,20}tokens",
    re.IGNORECASE,
)
_TYPES: dict[str, Failure] = {
    "authentication_error": "key",
    "permission_error": "key",
    "billing_error": "key",
    "insufficient_quota": "key",
    "invalid_api_key": "key",
    "rate_limit_error": "rate",
    "rate_limit_exceeded": "rate",
    "overloaded_error": "overload",
    "api_error": "server",
    "server_error": "server",
    "timeout_error": "server",
    "request_too_large": "context",
    "context_length_exceeded": "context",
    "not_found_error": "request",
    "invalid_request_error": "request",
}
_STATUS: dict[int, Failure] = {
    401: "key",
    402: "key",
    403: "key",
    408: "server",
    409: "server",
    413: "context",
    425: "server",
    429: "rate",
    529: "overload",
}


def failure_of(error: BaseException) -> ProviderError:
    """The failure that an exception of a client library or of its transport stands for."""
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    said = inner.get("message") if isinstance(inner, Mapping) else None
    text = _line(said if isinstance(said, str) and said else str(error) or type(error).__name__)
    names = (
        [str(inner.get(key)) for key in ("code", "type") if inner.get(key)]
        if isinstance(inner, Mapping)
        else []
    )
    kind: Failure | None = next((_TYPES[name] for name in names if name in _TYPES), None)
    if not isinstance(status, int):
        if kind is None:
            # Our side gave up, the line broke, or what came was not the protocol.
            kind = (
                "protocol"
                if isinstance(error, (ValueError, TypeError, AttributeError, KeyError))
                else "network"
            )
        return ProviderError(kind, text)
    if kind is None or kind == "request":
        kind = _STATUS.get(status) or (
            "server" if status >= 500 else kind or ("request" if status >= 400 else "server")
        )
    if kind == "request" and _CONTEXT.search(text):
        kind = "context"
    number = f" (HTTP {status})" if status >= 400 else ""
    return ProviderError(kind, f"{text}{number}", _retry_after(getattr(error, "response", None)))


def _line(text: str) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= MESSAGE_LIMIT else line[: MESSAGE_LIMIT - 1] + "…"


def _retry_after(response: Any) -> float | None:
    """Seconds that the server asks to wait, from either header; dates are left to our own backoff."""
    headers = getattr(response, "headers", None)
    if headers is None:
        return None
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name)) * unit
        except (TypeError, ValueError):
            continue
        if 0 <= seconds < float("inf"):
            return min(seconds, RETRY_AFTER_LIMIT_S)
    return None
