"""Text of untrusted origin made safe to show: the way by which words of a model or kernel reach a pane.

Nothing here interprets markup or escape sequences. What a terminal could act on, or an eye would miss
(control characters, ANSI escapes, bidirectional overrides, zero-width and private characters), becomes
visible ASCII: `^[` for ESC, `<U+202E>` for the rest. Lengths are bounded, because a pane shows an excerpt
and never a megabyte.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rich.cells import cell_len, chop_cells

LINE_LIMIT = 2_000
"""Characters of one line that a pane shows."""

PARAGRAPH_LIMIT = 20_000
"""Characters of one line that is wrapped."""

TEXT_LIMIT = 256_000
"""Characters of one text that a pane reads at all."""

TAB = "    "

_MARKS_IN_A_ROW = 3
"""Combining marks that one letter may carry; more are a tower that smears over other lines."""


def clean(text: object, limit: int = TEXT_LIMIT) -> str:
    """`text` with every line break kept and everything else that is invisible or active spelt out.

    The result holds printable characters and `\\n` alone, at most about `limit` characters of the original.
    """
    raw = text if isinstance(text, str) else str(text)
    if len(raw) > limit:
        raw = f"{raw[:limit]}... ({len(raw) - limit:,} more characters)"
    if raw.isascii() and raw.isprintable():
        return raw
    raw = raw.replace("\r\n", "\n").replace("\t", TAB)
    return _bounded_marks(raw.translate(_SPELLING))


def one_line(text: object, limit: int = LINE_LIMIT) -> str:
    """`clean` text on a single line: line breaks and runs of blanks become one space."""
    raw = text if isinstance(text, str) else str(text)
    return ellipsis(" ".join(clean(raw[: limit * 4]).split()), limit)


def lines_of(text: object, max_lines: int = 4_000, limit: int = LINE_LIMIT) -> list[str]:
    """`clean` text as lines, each at most `limit` characters, at most `max_lines` of them."""
    lines = clean(text).split("\n")
    left_out = len(lines) - max_lines
    if left_out > 0:
        lines = [*lines[:max_lines], f"... ({left_out:,} more lines)"]
    return [line if len(line) <= limit else ellipsis(line, limit) for line in lines]


def ellipsis(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, ending in `...` if something was cut."""
    if len(text) <= limit:
        return text
    return text[: max(0, limit - 3)] + "..." if limit > 3 else text[:limit]


def fit(text: str, width: int) -> str:
    """At most `width` terminal cells of one line, ending in `...` if something was cut."""
    if width <= 0:
        return ""
    if text.isascii():
        return ellipsis(text, width)
    if cell_len(text) <= width:
        return text
    tail = "..." if width > 3 else ""
    head = chop_cells(text, width - len(tail)) if width > len(tail) else []
    return (head[0] if head else "") + tail


def pad(text: str, width: int) -> str:
    """Exactly `width` terminal cells of one line, cut or filled with blanks on the right."""
    shown = fit(text, width)
    return shown + " " * (width - cell_len(shown))


@lru_cache(maxsize=2_048)
def wrap(paragraph: str, width: int) -> tuple[str, ...]:
    """One line broken at blanks into lines of at most `width` cells; later lines keep its indent.

    `paragraph` has been through `clean` and holds no line break. Words wider than the line are broken.
    """
    width = max(1, width)
    if cell_len(paragraph) <= width:
        return (paragraph,)
    body = paragraph.lstrip(" ")
    indent = " " * min(len(paragraph) - len(body), width // 2)
    room = width - len(indent)
    lines: list[str] = []
    line, used = "", 0
    for word in body.split(" "):
        cells = cell_len(word)
        if used and used + 1 + cells <= room:
            line, used = f"{line} {word}", used + 1 + cells
            continue
        if used:
            lines.append(indent + line)
        if cells > room:
            pieces = chop_cells(word, room)
            lines.extend(indent + piece for piece in pieces[:-1])
            word = pieces[-1]
            cells = cell_len(word)
        line, used = word, cells
    if line:
        lines.append(indent + line)
    return tuple(lines)


def wrapped(text: object, width: int, max_lines: int = 1_000) -> list[str]:
    """`clean` text broken into lines of at most `width` cells, at most `max_lines` of them."""
    raw = text if isinstance(text, str) else str(text)
    # More characters than this cannot be shown, so they are not even looked at.
    seen = raw[: max_lines * (max(1, width) + 1)]
    result: list[str] = []
    for line in lines_of(seen, max_lines, PARAGRAPH_LIMIT):
        result.extend(wrap(line, width))
        if len(result) > max_lines:
            break
    if len(result) > max_lines or len(seen) < len(raw):
        result = [*result[: max_lines - 1], "..."]
    return result


class _Spelling(dict[int, str]):
    """Code point to what is shown for it, worked out when first met; bounded, as texts can be hostile."""

    def __missing__(self, code: int) -> str:
        shown = _spelt_out(chr(code))
        if len(self) < 8_192:
            self[code] = shown
        return shown


def _spelt_out(character: str) -> str:
    code = ord(character)
    if character == "\n":
        return character
    if code < 0x20:
        return "^" + chr(code + 0x40)
    if code == 0x7F:
        return "^?"
    if 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:
        return f"<U+{code:04X}>"
    return character if character.isprintable() else f"<U+{code:04X}>"


_SPELLING = _Spelling()

_MARK = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_TOWER = re.compile(f"({_MARK}{{{_MARKS_IN_A_ROW}}})({_MARK}+)")


def _bounded_marks(text: str) -> str:
    return _TOWER.sub(lambda match: f"{match[1]}<{len(match[2])} marks>", text)
