"""What the reading commands print: the contract's JSON, tables without a terminal's commands in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kernel_lab.engine import events as e
from kernel_lab.engine.facts import Check
from kernel_lab.engine.lab import open_lab
from kernel_lab.engine.ledger.store import Ledger
from kernel_lab.tui import output, sources

KernelLab = Callable[..., Any]


def _json(answer: Any) -> Any:
    assert answer.status == 0, answer.err
    return json.loads(answer.out)


def test_results_json_is_the_contract(kernel_lab: KernelLab, recorded_lab: Path) -> None:
    found = _json(kernel_lab("results", "--json"))
    assert list(found) == ["lab", "device", "champions", "agents", "experiments"]
    assert found["agents"]["requests"] == found["agents"]["tokens"] == 0
    assert found["lab"] == str(recorded_lab)
    assert found["device"] == "rtx3060 (static)"
    assert found["champions"] == {"gqa_decode": 2}
    assert [row["id"] for row in found["experiments"]] == [1, 2, 3, 4]
    for row in found["experiments"]:
        assert " ".join(row) == (
            "id task parent status score score_kind vs_seed ci trials proposer description commit reasons"
        )
    seed, kept, wrong, waiting = found["experiments"]
    assert (seed["status"], seed["parent"], seed["vs_seed"], seed["score"]) == ("seed", None, 1.0, 0.7)
    assert (kept["status"], kept["score"], kept["vs_seed"], kept["score_kind"]) == (
        "keep",
        0.92,
        1.31,
        "estimated",
    )
    assert kept["trials"] == 1 and len(kept["commit"]) == 40 and kept["ci"] is None
    assert wrong["reasons"] == [{"gate": "correctness", "probe": "values", "detail": "odd-lengths: row 3"}]
    assert wrong["score"] is None and waiting["commit"] is None


def test_results_tsv_begins_with_the_contract_and_keeps_one_row_a_line(
    kernel_lab: KernelLab, recorded_lab: Path
) -> None:
    answer = kernel_lab("results", "--tsv")
    lines = answer.out.splitlines()
    assert lines[0].startswith("commit\tscore\tstatus\tdescription\t")
    columns = len(lines[0].split("\t"))
    assert [len(line.split("\t")) for line in lines] == [columns] * 5
    assert lines[2].split("\t")[1:4] == ["0.920000", "keep", "Fold the scale into exp2 and [31mmore[0m"]


def test_results_table_marks_estimates_champions_and_questions(
    kernel_lab: KernelLab, recorded_lab: Path
) -> None:
    answer = kernel_lab("results")
    assert "no number here was measured" in answer.out
    assert "#2*" in answer.out and "~1.310×" in answer.out
    assert "running, needs you" in answer.out
    assert "\x1b" not in answer.out


def test_results_of_a_lab_without_events_is_empty(kernel_lab: KernelLab, tmp_path: Path) -> None:
    from kernel_lab.engine.lab import LabConfig, create_lab

    create_lab(tmp_path / "fresh", LabConfig(gpu="rtx3060")).close()
    found = _json(kernel_lab("results", "--json", "--lab", tmp_path / "fresh"))
    assert found["experiments"] == [] and found["champions"] == {}
    assert kernel_lab("results", "--lab", tmp_path / "fresh").status == 0


def test_labs_lists_a_lab_and_names_one_that_is_broken(kernel_lab: KernelLab, recorded_lab: Path) -> None:
    (lab,) = _json(kernel_lab("labs", "--json"))["labs"]
    assert (lab["name"], lab["experiments"], lab["kept"], lab["waiting"]) == ("lab", 3, 1, 1)
    (recorded_lab / "lab.db").write_bytes(b"no database" * 100)
    (lab,) = _json(kernel_lab("labs", "--json"))["labs"]
    assert lab["problem"]
    assert kernel_lab("labs").status == 0


def test_labs_without_any_says_how_to_begin(kernel_lab: KernelLab) -> None:
    assert "kernel-lab run" in kernel_lab("labs").out
    assert _json(kernel_lab("labs", "--json")) == {"labs": []}


def test_show_json_holds_everything_known(kernel_lab: KernelLab, recorded_lab: Path) -> None:
    found = _json(kernel_lab("show", "2", "--json"))
    assert found["experiment"]["status"] == "keep"
    assert found["experiment"]["prediction"] == {"gain_percent": 12.0, "bottleneck": "dram"}
    assert found["trials"][0]["values"] == {"BLOCK": 128}
    assert found["checks"][0]["case"] == "odd-lengths"
    assert found["launches"][0]["smem_bytes"] == 65536
    assert found["speed"]["per_workload"][0]["vs"] == {"fa2": 0.92, "seed": 1.31}
    assert found["source"].startswith("SPACE")
    assert found["question"] is None


def test_show_is_readable_and_puts_the_question_on_top(kernel_lab: KernelLab, recorded_lab: Path) -> None:
    kept = kernel_lab("show", "#2").out
    assert "#2 gqa_decode from #1 by search: keep" in kept
    assert "estimated 1.310× against seed" in kept and "65,536" in kept and "\x1b" not in kept
    waiting = kernel_lab("show", "4").out.splitlines()
    assert waiting[0] == "#4 gqa_decode from #2 by search: waits for you"
    assert waiting[1] == "needs you: estimated 1.05 × the champion"
    assert "correctness values: odd-lengths: row 3" in kernel_lab("show", "3").out


def test_show_has_numbers_for_comparisons_alone_and_calls_the_person_you(
    kernel_lab: KernelLab, recorded_lab: Path
) -> None:
    with closing(open_lab(recorded_lab)) as lab:
        probe = Check("integrity", "fresh-addresses", "new_contents", "fail", "the same bits", 0.0, None)
        lab.ledger.append([e.Checked(4, probe), e.Decided(4, "keep", "reject", "person", "smells", "")])
    out = kernel_lab("show", "4").out
    assert "fail" in out and "new_contents" in out and "0.00e+00" not in out
    assert out.splitlines()[-1] == "reject by you: smells"
    assert "1.00e-03" in kernel_lab("show", "2").out


def test_diff_shows_what_changed_against_each_side(kernel_lab: KernelLab, recorded_lab: Path) -> None:
    assert "+CONFIG = {'*': {'BLOCK': 128}}" in kernel_lab("diff", "2").out
    assert "no difference between #3 and #1" in kernel_lab("diff", "3", "--against", "seed").out
    found = _json(kernel_lab("diff", "3", "--against", "champion", "--json"))
    assert (found["experiment"], found["against"], found["side"]) == (3, 2, "champion")
    assert "-CONFIG = {'*': {'BLOCK': 128}}" in found["diff"]


def test_diff_of_a_seed_against_its_parent_says_what_to_do(kernel_lab: KernelLab, recorded_lab: Path) -> None:
    answer = kernel_lab("diff", "1")
    assert answer.status == 2
    assert "a seed has no parent" in answer.line and "--against" in answer.line


@pytest.mark.parametrize("command", ["show", "diff"])
def test_an_experiment_that_does_not_exist_is_told_with_those_that_do(
    command: str, kernel_lab: KernelLab, recorded_lab: Path
) -> None:
    answer = kernel_lab(command, "99")
    assert answer.status == 2
    assert "there is no experiment 99" in answer.line and "1 to 4" in answer.line


def test_ideas_say_what_became_of_them(kernel_lab: KernelLab, recorded_lab: Path) -> None:
    (idea,) = _json(kernel_lab("ideas", "--json"))["ideas"]
    assert (idea["text"], idea["used_by"], idea["withdrawn"]) == ("try split KV", [2], False)
    assert "used by #2" in kernel_lab("ideas").out


def test_open_and_replay_as_json_are_the_events(kernel_lab: KernelLab, recorded_lab: Path) -> None:
    events = [json.loads(line) for line in kernel_lab("replay", recorded_lab, "--json").out.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["type"] == "lab_created" and events[-1]["type"] == "engine_stopped"
    assert all(isinstance(event["time"], float) for event in events)
    assert kernel_lab("open", "--json").out == kernel_lab("replay", "lab", "--json").out
    assert kernel_lab("replay", recorded_lab / "lab.db", "--json").out.count("\n") == len(events)


@pytest.mark.parametrize("name", ["rtx3060-decode", "h200-decode"])
def test_shipped_recordings_are_whole_and_play_by_name(kernel_lab: KernelLab, name: str) -> None:
    events = [json.loads(line) for line in kernel_lab("replay", name, "--json").out.splitlines()]
    assert events[0]["type"] == "engine_started"
    assert any(event["type"] == "experiment_finished" and event["status"] == "keep" for event in events)
    path = Path(sources.__file__).parent / "recordings" / f"{name}.db"
    assert path.stat().st_size <= 2_000_000
    with closing(Ledger.recording(path)) as ledger:
        assert ledger.verify() == len(events)


def test_profiles_are_listed_shown_and_validated(kernel_lab: KernelLab) -> None:
    listed = _json(kernel_lab("profiles", "--json"))
    assert "rtx3060" in {entry["name"] for entry in listed["gpus"]}
    assert "llama-3.1-8b" in {entry["name"] for entry in listed["models"]}
    shown = _json(kernel_lab("profiles", "show", "rtx3060", "--json"))
    assert shown["smem_block_bytes"] == 101_376
    gpu = kernel_lab("profiles", "show", "rtx3060").out
    facts = {" ".join(line.split()) for line in gpu.splitlines()}
    assert {"of one block 101,376 B published", "memory 12 GiB published", "SMs 28 published"} <= facts
    assert "D 128 causal (scaled)   512: 16.9  1024: 19.3" in gpu
    assert "{" not in gpu.split("\n# ")[0], "no raw values"
    model = kernel_lab("profiles", "show", "gemma-3-4b").out
    assert "layers covered          5 of 34" in model and "KV heads                4 (groups of 2)" in model
    assert _json(kernel_lab("profiles", "validate", "--json"))["valid"] is True
    assert "✓ rtx3060" in kernel_lab("profiles", "validate", "rtx3060").out


def test_a_wrong_profile_of_the_users_own_is_named_with_its_line(
    kernel_lab: KernelLab, own_world: Path
) -> None:
    folder = own_world / "xdg_config_home" / "kernel-lab" / "profiles" / "gpus"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('title = "Mine"\narch = "x"\n')
    answer = kernel_lab("profiles", "validate")
    assert answer.status == 2
    assert "mine.toml" in answer.line
    assert kernel_lab("profiles").status == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("profiles show", "profiles show NAME"),
        ("profiles show nope", "lists the names"),
        ("profiles list rtx3060", "profiles show rtx3060"),
        ("profiles validate nope", "lists the names"),
    ],
)
def test_profiles_used_wrongly_say_what_to_do(arguments: str, said: str, kernel_lab: KernelLab) -> None:
    answer = kernel_lab(*arguments.split())
    assert answer.status == 2 and said in answer.line


def test_paths_follow_the_xdg_variables(kernel_lab: KernelLab, own_world: Path) -> None:
    found = _json(kernel_lab("paths", "--json"))
    assert found["labs"] == str(own_world / "xdg_data_home" / "kernel-lab" / "labs")
    assert all(Path(path).is_relative_to(own_world) for path in found.values())
    assert found["cache"] in kernel_lab("paths").out


def test_clean_leaves_nothing_that_a_terminal_obeys() -> None:
    hostile = "a\x1b]0;title\x07b\tc\nd\u202ee\u200bf\x9b31m"
    assert output.clean(hostile) == "a]0;titleb c def31m"
    assert output.clean("one\n\ttwo\x1b[2J", keep_lines=True) == "one\n    two[2J"


def test_json_has_no_word_for_infinity() -> None:
    assert output.plain({"a": (1, float("nan")), "b": Path("/x"), 3: float("inf")}) == {
        "a": [1, None],
        "b": "/x",
        "3": None,
    }


def test_reading_changes_nothing(kernel_lab: KernelLab, recorded_lab: Path) -> None:
    before = (recorded_lab / "lab.db").read_bytes()
    for arguments in (["results"], ["show", "2"], ["diff", "2"], ["ideas"], ["labs"], ["open", "--json"]):
        assert kernel_lab(*arguments).status == 0
    assert (recorded_lab / "lab.db").read_bytes() == before
    open_lab(recorded_lab).close()
