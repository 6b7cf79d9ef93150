"""Text of untrusted origin: nothing that a terminal obeys gets through, and sizes are bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_lab.tui.text import LINE_LIMIT, clean, fit, lines_of, one_line, pad, wrap, wrapped
from rich.cells import cell_len

ANYTHING = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF), max_size=200)


@given(ANYTHING)
def test_clean_text_is_printable_on_every_line(text: str) -> None:
    assert all(line.isprintable() for line in clean(text).split("\n"))


@given(ANYTHING, st.integers(1, 40))
def test_no_line_is_wider_than_asked(text: str, width: int) -> None:
    # A wide character needs two cells wherever it stands.
    least = max(width, 2)
    assert all(cell_len(line) <= least for line in wrapped(text, width))
    assert cell_len(fit(one_line(text), width)) <= width
    assert cell_len(pad(one_line(text), width)) == width


@given(st.text(st.characters(codec="ascii", categories=("L", "N", "P")), max_size=60), st.integers(4, 30))
def test_wrapping_loses_no_letter(text: str, width: int) -> None:
    assert "".join(wrap(text, width)).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "^[[31mred^[[0m"),
        ("\x1b]52;c;ZXZpbA==\x07", "^[]52;c;ZXZpbA==^G"),
        ("a\u202eb\u2066c", "a<U+202E>b<U+2066>c"),
        ("x\u200by\ufeffz", "x<U+200B>y<U+FEFF>z"),
        ("arr[/] [bold]", "arr[/] [bold]"),
        ("\x9b31m", "<U+009B>31m"),
        ("café 漢字 → ×", "café 漢字 → ×"),
        ("a\tb\r\nc\rd", "a    b\nc^Md"),
        ("\ud800", "<U+D800>"),
        ("e" + "\u0301" * 9, "e" + "\u0301" * 3 + "<6 marks>"),
    ],
)
def test_what_a_terminal_would_obey_is_spelt_out(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_sizes_are_bounded() -> None:
    assert len(one_line("x" * 1_000_000)) <= LINE_LIMIT
    assert len(clean("y" * 1_000_000)) < 300_000
    assert len(lines_of("z\n" * 1_000_000, max_lines=100)) == 101
    assert len(wrapped("word " * 200_000, 80, max_lines=50)) == 50
    assert wrapped("a\n" * 1_000, 80, max_lines=50)[-1] == "..."


def test_wrapped_lines_keep_their_indent() -> None:
    assert wrap("    one two three", 11) == ("    one two", "    three")
