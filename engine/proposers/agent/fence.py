"""Untrusted text as data: what a compiler, kernel, candidate or model wrote cannot pose as instructions.

A fence opens and closes with a tag that names a code. The code is derived from the text and does not occur in
it, so that nothing inside can close the fence, and the same text always gives the same bytes.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_CODE_LENGTH = 8


def visible(text: str) -> str:
    """`text` with control, format, private and unassigned characters written out as escapes, but for line
    breaks and tabs. CRLF becomes LF."""
    return "".join(
        char if char in "\n\t" or unicodedata.category(char) not in _UNSAFE else _escape(char)
        for char in text.replace("\r\n", "\n")
    )


def shorten(text: str, limit_chars: int) -> str:
    """At most `limit_chars` characters of `text` and one line that says how much was left out of its middle.

    Two thirds come from the beginning: compilers name the first error first, and sum up last.
    """
    if len(text) <= limit_chars:
        return text
    limit_chars = max(0, limit_chars)
    head = limit_chars * 2 // 3
    tail = limit_chars - head
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out:,} characters left out …]\n{text[len(text) - tail :]}"


def inline(text: str, limit_chars: int) -> str:
    """One line of at most `limit_chars` characters in double quotes, for untrusted words inside a line."""
    line = " ".join(visible(text).split()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{line if len(line) <= limit_chars else line[: max(0, limit_chars - 1)] + "…"}"'


def fence(text: str, label: str, limit_chars: int) -> str:
    """`text` as data under `label`, at most about `limit_chars` characters of it; see the module."""
    body = shorten(visible(text), limit_chars)
    code = _code(body)
    name = re.sub(r"[^\w #.,:/()-]", "_", " ".join(label.split()))[:80]
    return f'<data {code} label="{name}">\n{body}\n</data {code}>'


def _code(body: str) -> str:
    """Some hexadecimal digits that do not occur in `body`, the same for the same text."""
    digest = body.encode("utf-8", "replace")
    while True:
        digest = hashlib.sha256(digest).digest()
        code = digest.hex()[:_CODE_LENGTH]
        if code not in body:
            return code


def _escape(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{{{ord(char):x}}}"
