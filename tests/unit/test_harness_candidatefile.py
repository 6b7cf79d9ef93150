"""How a candidate's file is loaded in its own process: what runs is the text that was judged."""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HARNESS = Path(__file__).parents[2] / "engine" / "harness"


@pytest.fixture
def candidatefile(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(HARNESS))
    import candidatefile

    yield candidatefile
    sys.modules.pop("candidate", None)


@pytest.mark.parametrize("encoding", ["utf-7", "utf-16-le", "no-such-encoding"])
def test_a_declared_encoding_changes_nothing(candidatefile: Any, tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "candidate.py"
    text = f"# coding: {encoding}\nANSWER = 1  # +AAo-ANSWER = 2\n\n\ndef attention():\n    return ANSWER\n"
    path.write_bytes(text.encode())
    entry = candidatefile.load(str(path), "attention")
    assert entry() == 1
    assert inspect.getsource(entry) == "def attention():\n    return ANSWER\n"
    linecache.checkcache(str(path))
    assert "".join(linecache.getlines(str(path))) == text


def test_a_byte_order_mark_and_any_line_ends_are_read(candidatefile: Any, tmp_path: Path) -> None:
    path = tmp_path / "candidate.py"
    path.write_bytes(b"\xef\xbb\xbfX = 3\r\n\r\ndef attention():\r\n    return X\r\n")
    entry = candidatefile.load(str(path), "attention")
    assert entry() == 3
    assert inspect.getsource(entry) == "def attention():\n    return X\n"


def test_what_is_no_utf_8_or_no_python_is_invalid_and_named(candidatefile: Any, tmp_path: Path) -> None:
    path = tmp_path / "candidate.py"
    for content, word in ((b"X = '\xff'\n", "UnicodeDecodeError"), (b"X = (\n", "SyntaxError")):
        path.write_bytes(content)
        with pytest.raises(candidatefile.Refused) as refused:
            candidatefile.load(str(path), "attention")
        assert refused.value.outcome == "invalid"
        assert word in refused.value.detail
