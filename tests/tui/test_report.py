"""The report: one page that holds everything, escapes everything and refers to nothing outside itself."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fake_lab import FakeLab
from kernel_lab.engine import events as e
from kernel_lab.engine.facts import Reason, Speed
from kernel_lab.tui import cli, report
from kernel_lab.tui.series import Scored

VOID = {"meta", "line", "circle", "path"}
HOSTILE = (
    "<script>alert(1)</script>\"'&amp;</pre></style><img src=//evil.example/x onerror=a>\x1b]0;x\x07\u202eabc"
)


class Page(HTMLParser):
    """Tags, attributes and text of a page, and whether its tags are balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.said: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"left open: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID or tag == "circle":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.said).split())


def reported(lab: FakeLab) -> Page:
    return Page(report.page(lab.ledger, lab.folder.name, 1_796_078_203.0))


def test_the_page_tells_scores_shapes_changes_decisions_and_receipts(lab: FakeLab) -> None:
    lab.write(e.IdeaSaid(1, "use exp2", "next", None, "you"))
    number = lab.begin("gqa_decode", "Use exp2", "saves a multiplication")
    lab.gates(number, "lint", "screen", "quick")
    lab.judge(number, "gqa_decode", 1.25)
    lab.finish(number, "keep")
    held = lab.begin("gqa_prefill")
    lab.finish(held, "held", Reason("speed", "floor", "faster than the card can be"))
    lab.write(e.StatusRevised(held, "vetoed", "you", "it smells", "cheat"))
    page = reported(lab)
    for words in (
        f"decode #{number}: 1.25× seed",
        "estimated",
        "decode-b16-s4k",
        "+2 -2 lines",
        f"# variant {number}",
        "idea 1 (next) by you: use exp2",
        "held: faster than the card can be",
        "vetoed by you: it smells",
        "champion of decode after #1",
        "as of 2026-",
        "device RTX 3060 (static)",
    ):
        assert words in page.text, words
    head = lab.ledger.fetch("SELECT hash FROM events ORDER BY seq DESC LIMIT 1")[0][0]
    assert head in page.text and lab.sha(number) in page.text
    assert page.tags.count("svg") == 1 and page.tags.count("circle") == 3


def test_measured_points_have_bars_and_estimates_are_drawn_otherwise(lab: FakeLab) -> None:
    number = lab.begin("gqa_decode")
    lab.write(e.SpeedJudged(number, Speed("measured", {"fa2": 1.3}, {"fa2": (1.2, 1.4)}, ())))
    lab.finish(number, "keep")
    page = reported(lab)
    classes = [value for name, value in page.attributes if name == "class"]
    assert classes.count("bar") == 1 and classes.count("kept") == 1 and classes.count("kept estimated") == 2
    assert "1.300 [1.20, 1.40]" in page.text


def test_a_baseline_that_a_champion_lacks_is_not_charted(lab: FakeLab) -> None:
    assert "Progress: × FA2" in reported(lab).text
    number = lab.begin("gqa_decode")
    lab.write(e.SpeedJudged(number, Speed("measured", {"seed": 1.3}, {}, ())))
    lab.finish(number, "keep")
    assert "Progress: × seed" in reported(lab).text


def test_hostile_texts_stay_texts(lab: FakeLab) -> None:
    lab.write(e.IdeaSaid(1, HOSTILE, "next", None, HOSTILE))
    number = lab.begin("gqa_decode", HOSTILE, HOSTILE, HOSTILE, text=f"x = '''{HOSTILE}'''\n")
    lab.judge(number, "gqa_decode", 1.2)
    lab.finish(number, "keep", Reason("speed", HOSTILE, HOSTILE))
    held = lab.begin("gqa_decode", HOSTILE)
    lab.finish(held, "held", Reason(HOSTILE, HOSTILE, HOSTILE))
    lab.write(e.EngineStarted(HOSTILE, {HOSTILE: {HOSTILE: [HOSTILE]}}))
    lab.write(e.StatusRevised(number, "vetoed", HOSTILE, HOSTILE))
    text = report.page(lab.ledger, HOSTILE, 0.0)
    page = Page(text)
    assert not {"script", "img", "iframe", "link"} & set(page.tags)
    assert not [
        name for name, _ in page.attributes if name.startswith("on") or name in ("src", "href", "style")
    ]
    assert "<script>alert(1)</script>" in page.text
    assert text.replace("\n", "").isprintable(), "nothing invisible or active is left"


def test_the_page_refers_to_nothing_outside(lab: FakeLab) -> None:
    lab.past(4)
    text = report.page(lab.ledger, "lab", 0.0)
    assert not re.findall(r"(?:https?:)?//[a-z]|url\(|@import|<script|src=|href=", text)
    assert "default-src 'none'; style-src 'unsafe-inline'" in text
    assert "prefers-color-scheme: dark" in text


def test_an_empty_lab_has_a_report_too(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path / "empty")
    page = reported(lab)
    assert "no champion yet" in page.text and "no experiment was judged on speed yet" in page.text
    lab.close()


def test_a_very_long_lab_gives_a_bounded_page(tmp_path: Path) -> None:
    lab = FakeLab(tmp_path / "long")
    lab.seeds()
    lab.bulk(4_000)
    text = report.page(lab.ledger, "long", 0.0)
    lab.close()
    assert len(text) < 2_500_000
    assert "1,002 earlier ones are left out" in text
    assert text.count("<circle") <= 2 * 2 * 400


def test_the_command_writes_a_file_and_leaves_foreign_ones(
    lab: FakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report", "--lab", str(lab.folder)]) == 0
    assert capsys.readouterr().out == "wrote lab.html: open it in a browser; it needs no network\n"
    assert cli.main(["report", "--lab", str(lab.folder), "-o", "lab.html", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"report": str(tmp_path / "lab.html"), "bytes": (tmp_path / "lab.html").stat().st_size}
    (tmp_path / "mine.html").write_text("my own page")
    assert cli.main(["report", "--lab", str(lab.folder), "-o", "mine.html"]) == 2
    assert "is no report and was left as it is" in capsys.readouterr().err
    assert (tmp_path / "mine.html").read_text() == "my own page"
    assert cli.main(["report", "--lab", str(lab.folder), "-o", "nowhere/a.html"]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert cli.main(["report", "--lab", str(lab.folder), "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")


def test_scored_rows_carry_their_interval_into_the_chart() -> None:
    from kernel_lab.tui.report_chart import progress_svg

    row = Scored(3, "gqa_decode", "keep", 1.5, False, (1.4, 1.6))
    assert 'class="bar"' in progress_svg([row], "FA2")
    assert progress_svg([Scored(3, "gqa_decode", "keep", None, False)], "FA2") == ""
