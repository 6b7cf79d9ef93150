"""What is told on return: only what happened since, and only if something did."""

from __future__ import annotations

from pathlib import Path

from cockpit_driver import Cockpit
from fake_lab import FakeLab
from kernel_lab.engine import paths
from kernel_lab.tui.digest import Seen, digest, read_seen, write_seen


def test_the_line_counts_what_came_since_and_names_champions_that_moved() -> None:
    before = Seen(10, 2, "fa2", {"gqa_decode": 1.31, "gqa_prefill": 0.9})
    now = Seen(222, 5, "fa2", {"gqa_decode": 1.44, "gqa_prefill": 0.9})
    spent = Seen(222, 5, "fa2", {"gqa_decode": 1.31}, 4.1)
    assert digest(before, spent, 0, estimated=False).endswith("212 tried, 3 kept, 4.10 USD")
    assert digest(before, now, 1, estimated=False) == (
        "since you were here: 212 tried, 3 kept, 1 needs you, decode 1.31 → 1.44× FA2"
    )
    assert digest(before, now, 0, estimated=True).endswith("3 kept, decode 1.31 → 1.44× FA2 estimated")
    assert digest(now, now, 3, estimated=False) == ""


def test_ratios_against_different_baselines_are_not_compared() -> None:
    before, now = Seen(1, 0, "seed", {"gqa_decode": 1.0}), Seen(2, 0, "fa2", {"gqa_decode": 0.6})
    assert digest(before, now, 0, estimated=False) == "since you were here: 1 tried, 0 kept"


def test_what_was_seen_is_read_back_and_a_broken_file_is_as_none(tmp_path: Path) -> None:
    file, seen = tmp_path / "seen.json", Seen(3, 1, "fa2", {"gqa_decode": 1.5})
    write_seen(tmp_path / "a", seen, file)
    write_seen(tmp_path / "b", Seen(), file)
    assert read_seen(tmp_path / "a", file) == seen
    for broken in ("[]", "{", f'{{"{tmp_path}/a": 3}}', f'{{"{tmp_path}/a": {{"scores": 1}}}}'):
        file.write_text(broken)
        assert read_seen(tmp_path / "a", file) is None


async def test_opening_a_lab_again_tells_what_happened_until_a_key_is_pressed(
    cockpit: Cockpit, lab: FakeLab
) -> None:
    lab.past(3)
    async with cockpit(lab.folder) as driver:
        assert "since you were here" not in driver.text("#queue"), "the first time there is nothing to tell"
    assert (paths.state_dir() / "seen.json").is_file()
    lab.past(7)
    async with cockpit(lab.folder) as driver:
        await driver.until(lambda: "since you were here: 7 tried" in driver.text("#queue"))
        await driver.press("j")
        await driver.until(lambda: "since you were here" not in driver.text("#queue"))
    async with cockpit(lab.folder) as driver:
        assert "since you were here" not in driver.text("#queue")
