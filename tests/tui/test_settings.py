"""Settings of the person: keys, colours, ASCII; what is wrong in the file is told and costs nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cockpit_driver import Cockpit
from fake_lab import FakeLab
from kernel_lab.engine import paths
from kernel_lab.tui import actions, filters, theme
from kernel_lab.tui.settings import DESKTOPS, TEMPLATE, THEMES, Settings, read_settings
from rich.segment import Segment
from rich.style import Style
from textual.color import Color


def written(text: str) -> Path:
    path = paths.config_dir() / "settings.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_no_file_means_the_defaults_and_the_template_says_the_same(own_world: Path) -> None:
    plain = read_settings(environment={"LANG": "C.UTF-8"})
    assert plain == Settings()
    path = written(re.sub(r"^# (?=\w+ = |\[)", "", TEMPLATE, flags=re.MULTILINE))
    told = read_settings(path, {"LANG": "C.UTF-8"})
    assert told.problems == ()
    assert told.keys == {"approve": ("a",), "down": ("down", "j", "ctrl+n")}
    assert (told.theme, told.ascii, told.bell, told.title, told.desktop) == ("dark", False, True, True, "off")


@pytest.mark.parametrize(
    ("language", "ascii_only"), [("C", True), ("POSIX", True), ("C.UTF-8", False), ("", False)]
)
def test_a_locale_without_utf8_asks_for_ascii(own_world: Path, language: str, ascii_only: bool) -> None:
    assert read_settings(environment={"LANG": language}).ascii is ascii_only


def test_every_mistake_is_told_and_the_rest_counts(own_world: Path) -> None:
    path = written(
        'theme = "pink"\nbell = 3\nvolume = 11\ndesktop = "osc9"\n'
        '[keys]\nfly = "f"\nveto = 7\nkeep = "K"\nreject = ["f7"]\n'
    )
    settings = read_settings(path)
    assert (settings.theme, settings.bell, settings.desktop) == ("dark", True, "osc9")
    assert settings.keys == {"keep": ("K",), "reject": ("f7",)}
    told = "\n".join(settings.problems)
    for words in ("theme is 'pink'", "bell is 3", "volume is no setting", "keys.fly", "keys.veto is 7"):
        assert words in told
    assert read_settings(written("theme = [")).problems[0].endswith("mend it or remove it")


def test_a_key_of_another_action_is_refused_unless_both_get_new_ones(
    own_world: Path,
) -> None:
    settings = read_settings(written('[keys]\napprove = "r"\n'))
    assert settings.keys == {} and "r means reject already" in settings.problems[0]
    swapped = read_settings(written('[keys]\napprove = "r"\nreject = "a"\n'))
    assert swapped.problems == () and swapped.keys == {"approve": ("r",), "reject": ("a",)}
    assert "pane" not in swapped.keys
    taken = read_settings(written('[keys]\nveto = "j"\n'))
    assert "j means down already" in taken.problems[0]


async def test_a_remapped_key_works_and_is_named_everywhere(cockpit: Cockpit, lab: FakeLab) -> None:
    written('[keys]\nregion_5 = "?"\nhelp = "f3"\n')
    async with cockpit(lab.folder) as driver:
        await driver.press("question_mark")
        assert driver.screen.focused is not None and driver.screen.focused.id == "history"
        assert "f3 help" in driver.text("#keys")
        await driver.press("5")
        await driver.press("f3")
        await driver.on("TextDialog")
        assert "? " in driver.text("#dialog-text")
    actions.use_keys({})


async def test_what_is_wrong_in_the_file_is_told_when_the_cockpit_opens(cockpit: Cockpit) -> None:
    written('theme = "pink"\n')
    async with cockpit() as driver:
        toasts = [toast.message for toast in driver.app._notifications]
        assert any("theme is 'pink'" in toast for toast in toasts)


async def test_the_settings_open_in_the_editor_and_count_at_once(
    cockpit: Cockpit, lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextlib import nullcontext

    from kernel_lab.tui import editor

    monkeypatch.setattr("kernel_lab.tui.cockpit.LabApp.suspend", lambda _: nullcontext())
    monkeypatch.setattr(editor, "edit_file", lambda path: path.write_text('theme = "light"\n'))
    async with cockpit(lab.folder) as driver:
        await driver.press("f2")
        await driver.told("are in use")
        assert driver.app.theme == theme.LIGHT.name


@pytest.mark.parametrize("name", THEMES)
async def test_every_theme_draws_in_its_own_colours(cockpit: Cockpit, lab: FakeLab, name: str) -> None:
    written(f'theme = "{name}"\n')
    lab.past(6)
    async with cockpit(lab.folder) as driver:
        await driver.until(lambda: "keep" in driver.text("#history") or "discard" in driver.text("#history"))
        styles = {
            segment.style
            for y in range(30)
            for segment in driver.app.screen.get_widget_at(0, y)[0].render_lines(
                driver.app.screen.get_widget_at(0, y)[0].size.region
            )[0]
            if segment.style is not None
        }
        colours = {part.name for style in styles for part in (style.color, style.bgcolor) if part is not None}
        if name == "dark":
            assert theme.LABEL.color is not None and theme.LABEL.color.name in colours
            return
        foreign = colours & set(theme.recolouring(theme.THEMES[name]))
        assert not foreign, "colours of the dark theme are left"


def test_palettes_are_whole_and_no_theme_uses_a_colour_that_is_recoloured() -> None:
    drawn = {
        part.name
        for value in vars(theme).values()
        if isinstance(value, Style)
        for part in (value.color, value.bgcolor)
        if part is not None
    }
    tasks = (theme.DECODE_RGB, theme.PREFILL_RGB, theme.OTHER_RGB)
    named = "#{:02x}{:02x}{:02x}".format
    drawn |= {named(*rgb) for task in tasks for rgb in (task, theme.dimmed(task))}
    for name in THEMES[1:]:
        one = theme.THEMES[name]
        colours = theme.recolouring(one)
        assert drawn <= set(colours), "a colour that panes draw with has no counterpart"
        own = {one.primary, one.secondary, one.accent, one.warning, one.error, one.success, one.foreground}
        own |= {one.background, one.surface, one.panel, *one.variables.values()}
        assert not own & set(colours), name


def test_verdicts_differ_in_brightness_or_hue_for_colour_blind_eyes() -> None:
    colours = theme.recolouring(theme.COLOUR_BLIND)
    names = [str(style.color.name) for style in (theme.GOOD, theme.BAD) if style.color]
    good, bad = (Color.parse(colours[name]) for name in names)
    assert abs(good.b - bad.b) > 100, "blue against orange: all common kinds of colour blindness see it"


def test_ascii_keeps_every_line_as_wide_as_it_was() -> None:
    for text in ("╭─1.31×─╮", "東京 │ ok", "e\u0301 µs °C → …", "plain"):
        shown = filters.in_ascii(text)
        assert shown.isascii()
        from rich.cells import cell_len

        assert cell_len(shown) == cell_len(text)
    assert filters.in_ascii("1.31× │") == "1.31x |"
    black = Color(0, 0, 0)
    assert filters.AsciiOnly().apply([Segment("─"), Segment("a")], black) == [Segment("-"), Segment("a")]


async def test_with_ascii_the_whole_screen_is_ascii(cockpit: Cockpit, lab: FakeLab) -> None:
    written("ascii = true\n")
    lab.past(6)
    async with cockpit(lab.folder) as driver:
        await driver.until(lambda: "#" in driver.text("#history"))
        svg = driver.app.export_screenshot(simplify=True)
        shown = re.sub(r"&#\d+;|&\w+;", "", "".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg)))
        assert "kernel-lab" in svg and shown.isascii(), sorted({c for c in shown if not c.isascii()})


def test_the_documentation_names_every_setting_and_value() -> None:
    from dataclasses import fields

    page = (Path(__file__).parents[2] / "docs" / "cockpit.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    assert set(rows) == {field.name for field in fields(Settings)} - {"problems"}
    assert all(f"`{name}`" in rows["theme"] for name in THEMES)
    assert all(f"`{name}`" in rows["desktop"] for name in DESKTOPS)
    example = page.split("```toml\n")[1].split("```")[0]
    assert read_settings(written(example)).problems == ()
