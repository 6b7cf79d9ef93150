"""Candidates: what is read, what is refused and with which words, and how settings are rewritten."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_lab.engine.candidate import (
    Candidate,
    canonical_form,
    parse,
    parse_tree,
    read_candidate_file,
    text_sha,
    values_for,
    with_config,
)
from kernel_lab.engine.errors import CandidateInvalid, UsageError

SOURCE = '''"""A kernel."""
import torch

SPACE = {"BLOCK": [32, 64, 128], "EXP2": [False, True], "order": ["plain", "longest"]}
CONFIG = {"*": {"BLOCK": 64, "EXP2": False, "order": "plain"}, "long": {"BLOCK": 128}}  # settings


def attention(q, k, v, *, causal: bool, scale: float):
    """é: two bytes before this."""
    return torch.empty_like(q)
'''


def candidate(source: str = SOURCE) -> Candidate:
    return parse(source, "attention")


def refused(source: str, entry: str = "attention") -> str:
    with pytest.raises(CandidateInvalid) as caught:
        parse(source, entry)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    return message


def replaced(old: str, new: str) -> str:
    assert old in SOURCE
    return SOURCE.replace(old, new)


def test_reads_space_config_and_the_values_of_a_bucket() -> None:
    read = candidate()
    assert read.space == {"BLOCK": [32, 64, 128], "EXP2": [False, True], "order": ["plain", "longest"]}
    assert values_for(read, "long") == {"BLOCK": 128, "EXP2": False, "order": "plain"}
    assert values_for(read, "anything") == {"BLOCK": 64, "EXP2": False, "order": "plain"}
    assert read.sha == text_sha(SOURCE)
    assert len(read.canonical_sha) == 64


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "empty"),
        ("  \n\n", "empty"),
        ("x = 1\0", "NUL"),
        ("x = '\ud800'", "surrogates"),
        ("#" * 1_000_001, "1 MB"),
        ("# -*- coding: raw_unicode_escape -*-\n" + SOURCE, "line 1 declares the encoding"),
        ("#!x\r \f# vim:fileencoding=utf-7\r" + SOURCE, "'utf-7'"),
        ("\n# encoding=unicode_escape\n" + SOURCE, "line 2 declares"),
        ("\ufeff# coding:latin-1\n" + SOURCE, "latin-1"),
        (replaced("def attention", "def attention attention"), "syntax error: line 8"),
        ("x = " + "(" * 5_000, "syntax error"),
        ("x = " + "-" * 100_000 + "1", "nested"),
        ("x = " + "+".join("1" * 50_000), "nested"),
        ("x = " + "9" * 10_000, "line 1"),
        (replaced("def attention", "def other"), "there is no entry function attention"),
        (replaced("def attention", "async def attention"), "no plain function"),
        (
            SOURCE + "\ndef attention(q, k, v, *, causal, scale): return q\n",
            "line 12: attention is defined twice",
        ),
        (replaced("(q, k, v, *, causal: bool, scale: float)", "(q, k, v)"), "wrong parameters"),
        (replaced("(q, k, v, *", "(k, q, v, *"), "wrong parameters"),
        (replaced("scale: float", "scale, extra"), "wrong parameters"),
        (replaced("SPACE = {", "SPACE = dict() or {"), "line 4: SPACE is not a literal"),
        (replaced("SPACE", "SPICE"), "there is no SPACE"),
        (replaced("CONFIG", "CONF"), "there is no CONFIG"),
        (SOURCE + "CONFIG = {}\n", "CONFIG is assigned twice"),
        (replaced("CONFIG =", "CONFIG = other ="), "line of its own"),
        (replaced("[32, 64, 128]", "[]"), "SPACE['BLOCK'] is no list"),
        (replaced("[32, 64, 128]", "[32, 64, 64, 128]"), "64 twice"),
        (replaced("[32, 64, 128]", "[32, 64, None, 128]"), "holds None"),
        (replaced("[32, 64, 128]", "[32, 64, 1e999, 128]"), "holds inf"),
        (replaced('"BLOCK": [', '"BLOCK": [1], "BLOCK": ['), "'BLOCK' twice"),
        (replaced('"BLOCK": [', '"a b": [1], "BLOCK": ['), "plain Python names"),
        (replaced('"BLOCK": [', '[]: [1], "BLOCK": ['), "not a literal"),
        (
            replaced('"BLOCK": 64', '"BLOCK": 65'),
            "CONFIG['*']['BLOCK'] = 65 is not in SPACE; choose one of 32, 64, 128",
        ),
        (replaced('"EXP2": False', '"EXP2": 0'), "CONFIG['*']['EXP2'] = 0 is not in SPACE"),
        (replaced('"BLOCK": 128', '"WARPS": 4'), "'WARPS', which SPACE does not list"),
        (replaced('"EXP2": False, ', ""), "no value for EXP2"),
        (replaced('"*": {', '"short": {'), 'CONFIG["*"] has no value'),
        (replaced('"long": {"BLOCK": 128}', '"long": 5'), "CONFIG['long'] is no dict"),
        (replaced('"long"', '"lo ng"'), "bucket 'lo ng'"),
    ],
)
def test_what_is_no_candidate_is_refused_with_the_remedy(source: str, words: str) -> None:
    assert words in refused(source)


@pytest.mark.parametrize(
    "first", ["# -*- coding: UTF-8 -*-", "# coding=utf_8", "# coding first\n#\n# coding: utf-7"]
)
def test_an_encoding_that_changes_nothing_may_stand(first: str) -> None:
    parse(f"{first}\n{SOURCE}", "attention")


def test_an_entry_may_have_defaults_and_take_other_keywords() -> None:
    for parameters in (
        "(q, k, v, *, causal=True, scale=None)",
        "(q, k, v, causal, scale)",
        "(q, k, v, /, causal, scale, block=64)",
        "(q, k, v, **settings)",
    ):
        parse(replaced("(q, k, v, *, causal: bool, scale: float)", parameters), "attention")
    assert "wrong parameters" in refused(SOURCE.replace("(q, k, v, *, causal: bool", "(q, k, v, causal, /"))


def test_decode_has_its_own_signature_and_unknown_entries_only_need_to_exist() -> None:
    decode = replaced("attention(q, k, v, *, causal: bool,", "decode(q, k_cache, v_cache, seq_lens, *,")
    assert parse(decode, "decode").entry == "decode"
    assert (
        "there is no entry function attention; define `def attention(q, k, v, *, causal, scale):`"
        in refused(decode)
    )
    assert parse(SOURCE.replace("attention", "mix"), "mix").entry == "mix"


def test_with_config_changes_the_literal_and_no_other_byte() -> None:
    head, tail = SOURCE.split('CONFIG = {"*"')[0], SOURCE.split('"long": {"BLOCK": 128}}')[1]
    read = candidate()
    config = {"*": {"BLOCK": 32, "EXP2": True, "order": "longest"}, "short": {"BLOCK": 64}}
    text = with_config(read, config)
    assert text == (
        head
        + 'CONFIG = {\n    "*": {"BLOCK": 32, "EXP2": True, "order": "longest"},\n'
        + '    "short": {"BLOCK": 64},\n}'
        + tail
    )
    assert candidate(text).config == config
    assert with_config(candidate(text), config) == text
    assert with_config(read, read.config) == SOURCE


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_with_config_survives_odd_layout(newline: str) -> None:
    source = newline.join(
        [
            "# ☃ first; a form feed \x0c and a line separator \u2028 end no line",
            'SPACE = {"A": [1, 2]}; é = "☃"; CONFIG: dict = ({"*":',
            '   {"A": 1}})  # ☃ after',
            "def attention(q, k, v, *, causal, scale): return q",
        ]
    )
    text = with_config(candidate(source), {"*": {"A": 2}})
    wrap = "\r\n" if newline == "\r\n" else "\n"
    assert text == source.replace(f'{{"*":{newline}   {{"A": 1}}}}', f'{{{wrap}    "*": {{"A": 2}},{wrap}}}')
    assert text.endswith("causal, scale): return q")


def test_long_rows_are_wrapped_one_value_a_line() -> None:
    names = [f"TUNABLE_NUMBER_{index}" for index in range(8)]
    source = SOURCE.replace(
        'SPACE = {"BLOCK"', f'SPACE = {{{", ".join(f"{name!r}: [1, 2]" for name in names)}, "BLOCK"'
    )
    source = source.replace(
        'CONFIG = {"*": {', f"CONFIG = {{'*': {{{', '.join(f'{name!r}: 1' for name in names)}, "
    )
    read = candidate(source)
    text = with_config(read, {"*": {**read.config["*"], names[0]: 2}})
    assert f'\n        "{names[0]}": 2,\n        "{names[1]}": 1,\n' in text
    assert max(map(len, text.split("CONFIG = {")[1].split("\n}")[0].splitlines())) <= 110


def test_with_config_refuses_values_outside_space() -> None:
    with pytest.raises(CandidateInvalid, match="is not in SPACE"):
        with_config(candidate(), {"*": {"BLOCK": 48, "EXP2": True, "order": "plain"}})


def test_canonical_form_sees_through_comments_docstrings_and_layout() -> None:
    same = (
        SOURCE.replace('"""A kernel."""', "# nothing")
        .replace('    """é: two bytes before this."""\n', "\n\n")
        .replace("(q, k, v, *, causal", "(\n    q,\n    k, v, *, causal")
        .replace('"BLOCK"', "'BLOCK'")
    )
    assert candidate(same).canonical_sha == candidate().canonical_sha
    assert candidate(same).sha != candidate().sha
    for other in ("[32, 64]", "[32, 64, 128.0]", '[32, 64, "128"]', "[32, 64, True]"):
        changed = replaced("[32, 64, 128]", other).replace('"long": {"BLOCK": 128}', '"long": {}')
        assert canonical_form(parse_tree(changed)) != canonical_form(
            parse_tree(SOURCE.replace('"long": {"BLOCK": 128}', '"long": {}'))
        )
    assert canonical_form(parse_tree("x = 0x" + "f" * 20_000)) != canonical_form(parse_tree("x = 0xf"))
    assert canonical_form(parse_tree("f(None)")) != canonical_form(parse_tree("f()"))


def test_nothing_of_a_candidate_runs_and_no_warning_escapes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse(SOURCE + '\nraise SystemExit("\\d")\n', "attention")


# ---- files ----------------------------------------------------------------------------------------


def unreadable(path: Path | str) -> str:
    with pytest.raises(UsageError) as caught:
        read_candidate_file(path)
    assert caught.value.exit_status == 2
    return str(caught.value)


def test_reads_the_exact_text_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "c.py"
    path.write_bytes(b"\xef\xbb\xbfx = 1\r\ny = 2\r")
    assert read_candidate_file(path) == "x = 1\r\ny = 2\r"
    assert read_candidate_file(str(path)) == "x = 1\r\ny = 2\r"


def test_paths_that_are_no_candidate_files_are_refused_with_the_remedy(tmp_path: Path) -> None:
    assert "does not exist" in unreadable(tmp_path / "missing.py")
    assert "does not exist" in unreadable(tmp_path / "no" / "folder.py")
    assert "is a directory" in unreadable(tmp_path)
    (tmp_path / "latin.py").write_bytes(b"x = '\xe9'")
    assert "not UTF-8 (byte 5)" in unreadable(tmp_path / "latin.py")
    (tmp_path / "big.py").write_bytes(b"#" * 1_000_001)
    assert "over 1 MB" in unreadable(tmp_path / "big.py")
    os.mkfifo(tmp_path / "pipe.py")
    assert "no regular file" in unreadable(tmp_path / "pipe.py")
    assert "give a readable file" in unreadable("a\0b")
    assert "give a readable file" in unreadable("a" * 5_000)


def test_a_symlink_may_not_leave_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    (tmp_path / "secret.py").write_text("x = 1")
    (folder / "inside.py").write_text("y = 2")
    (folder / "out.py").symlink_to(tmp_path / "secret.py")
    (folder / "in.py").symlink_to("inside.py")
    (folder / "loop.py").symlink_to("loop.py")
    (tmp_path / "link").symlink_to(folder)
    assert "symlink out of its folder" in unreadable(folder / "out.py")
    assert "give a readable file" in unreadable(folder / "loop.py")
    assert read_candidate_file(folder / "in.py") == "y = 2"
    assert read_candidate_file(tmp_path / "link" / "in.py") == "y = 2"


# ---- fuzz -----------------------------------------------------------------------------------------

WORDS = """SPACE CONFIG = { } [ ] ( ) : , "*" ' \\ def attention q,k,v,*,causal,scale return lambda 1 - ~ not
True f'{ }' b'' 0x 1e999 ... ** * if else class X async await é # ; \ufeff"""
FRAGMENTS = st.sampled_from([*WORDS.split(), " ", "\n", "\r", "\x0c", "    ", "\u2028", '"' * 3])


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(), st.lists(FRAGMENTS, max_size=60).map("".join)))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text, "attention")
    except CandidateInvalid as error:
        assert str(error)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(SOURCE)), st.integers(0, 12), st.lists(FRAGMENTS, max_size=4).map("".join))
def test_any_edit_of_a_candidate_is_read_or_refused_and_reads_back(at: int, cut: int, insert: str) -> None:
    text = SOURCE[:at] + insert + SOURCE[at + cut :]
    try:
        read = parse(text, "attention")
    except CandidateInvalid:
        return
    config = {"*": {name: values[-1] for name, values in read.space.items()}}
    assert parse(with_config(read, config), "attention").config == config


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "fuzz.py"
    path.write_bytes(content)
    try:
        parse(read_candidate_file(path), "attention")
    except (CandidateInvalid, UsageError) as error:
        assert str(error)
