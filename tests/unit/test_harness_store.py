"""Results by content, and the line between the host and its children."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "engine" / "harness"))

import machinecode
import store
import wire


def test_a_key_depends_on_values_and_not_on_the_order_of_names() -> None:
    assert store.key_of({"a": 1, "b": [2]}) == store.key_of({"b": [2], "a": 1})
    assert store.key_of({"a": 1}) != store.key_of({"a": 2})
    assert store.key_of("a", "b") != store.key_of("ab")


def test_what_was_put_is_got(tmp_path: Path) -> None:
    results = store.Store(tmp_path)
    key = store.key_of("x")
    assert results.get("screen", key) is None
    results.put("screen", key, {"outcome": "ok"})
    assert results.get("screen", key) == {"outcome": "ok"}
    assert results.get("unit", key) is None
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [f"{key}.json"]


@pytest.mark.parametrize("text", ["", "{", "[1]", "\x00"])
def test_a_damaged_file_counts_as_absent(tmp_path: Path, text: str) -> None:
    results = store.Store(tmp_path)
    path = results.put("screen", "ab" * 32, {"outcome": "ok"})
    path.write_text(text)
    assert results.get("screen", "ab" * 32) is None


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    results = store.Store(tmp_path, limit_bytes=2500)
    paths = [results.put("unit", f"{n:064x}", {"text": "x" * 1000}) for n in range(4)]
    for age, path in enumerate(reversed(paths)):
        os.utime(path, (1000 - age, 1000 - age))
    results.prune()
    assert [path.exists() for path in paths] == [False, False, True, True]


def test_the_hash_of_a_folder_changes_with_its_code_alone(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1")
    before = store.source_hash(tmp_path)
    (tmp_path / "notes.md").write_text("x")
    assert store.source_hash(tmp_path) == before
    (tmp_path / "a.py").write_text("x = 2")
    assert store.source_hash(tmp_path) != before


def test_text_of_others_becomes_one_bounded_printable_line() -> None:
    assert wire.one_line("a\n\tb\x1b[31m\x00c") == "a b [31m c"
    assert len(wire.one_line("x" * 1000)) == wire.DETAIL_LIMIT


def test_a_child_signs_what_it_says_and_hears_whole_lines() -> None:
    ours, theirs = socket.socketpair()
    line = wire.Wire(theirs)
    for part in (b'{"a"', b': 1}\n{"b":', b" 2}\n"):
        ours.send(part)
    assert [line.receive(), line.receive()] == [{"a": 1}, {"b": 2}]
    line.trust("n0nce")
    line.send(done=True)
    nonce, _, body = ours.recv(1000).partition(b" ")
    assert (nonce, json.loads(body)) == (b"n0nce", {"done": True})
    ours.close()
    with pytest.raises(EOFError):
        line.receive()


SASS = """
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/              @!P0 HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0020*/             @UP1 LDSM.16.M88.4 R8, [R2] ;
        /*0030*/                   HGMMA.64x64x16.F32 R24, gdesc[UR4] ;
        /*0040*/                   MOV R2, R3 ;
"""


def test_opcodes_are_counted_and_the_newest_tensor_family_is_named() -> None:
    counts = machinecode.opcodes(SASS)
    assert counts == {"MOV": 2, "HMMA": 1, "LDSM": 1, "HGMMA": 1}
    assert machinecode.tensor_family(counts) == "HGMMA"
    assert machinecode.tensor_family(machinecode.opcodes("")) == ""
