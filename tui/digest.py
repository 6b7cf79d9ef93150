"""What happened in a lab since this person last had it open, in one line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kernel_lab.tui import fmt
from kernel_lab.tui.model import LabModel
from kernel_lab.tui.text import one_line

LABS_REMEMBERED = 200


@dataclass(frozen=True, slots=True)
class Seen:
    """A lab as a person left it. `scores`: task to the champion's ratio against `baseline`."""

    done: int = 0
    kept: int = 0
    baseline: str = "fa2"
    scores: dict[str, float] = field(default_factory=dict)
    usd: float = 0.0


def seen_now(model: LabModel) -> Seen:
    """The lab as it stands on the screen. FA2 is what it is compared with, where every champion was."""
    champions = {
        task: row for task in (model.view.tasks if model.view else ()) if (row := model.champion(task))
    }
    baseline = "fa2" if all("fa2" in row.score for row in champions.values()) else "seed"
    scores = {task: row.score[baseline] for task, row in champions.items() if baseline in row.score}
    kept = model.view.counts.get("keep", 0) if model.view else 0
    usd = model.view.spending.usd if model.view else 0.0
    return Seen(model.done, kept, baseline, scores, usd)


def digest(before: Seen, now: Seen, waiting: int, *, estimated: bool) -> str:
    """`212 tried, 3 kept, 1 needs you, 4.10 USD, decode 1.31 → 1.44× FA2`; empty if nothing was tried."""
    tried = now.done - before.done
    if tried <= 0:
        return ""
    parts = [f"{tried} tried", f"{max(0, now.kept - before.kept)} kept"]
    if waiting:
        parts.append(f"{waiting} {'needs' if waiting == 1 else 'need'} you")
    if now.usd > before.usd:
        parts.append(fmt.usd(now.usd - before.usd))
    for task, score in now.scores.items():
        old = before.scores.get(task) if before.baseline == now.baseline else None
        if old is None or f"{old:.2f}" == f"{score:.2f}":
            continue
        word = {"fa2": "FA2"}.get(now.baseline, now.baseline)
        kind = " estimated" if estimated else ""
        parts.append(f"{fmt.task_word(one_line(task, 20))} {old:.2f} → {fmt.ratio(score)} {word}{kind}")
    return "since you were here: " + ", ".join(parts)


def read_seen(lab: Path, file: Path | None = None) -> Seen | None:
    """How the person left this lab; None if they never had it open, or nobody remembers."""
    entry = _read(_path(file)).get(str(lab.absolute()))
    if not isinstance(entry, dict):
        return None
    with contextlib.suppress(TypeError, ValueError, AttributeError):
        scores = {str(task): float(score) for task, score in entry["scores"].items()}
        usd = float(entry.get("usd", 0.0))
        return Seen(int(entry["done"]), int(entry["kept"]), str(entry["baseline"]), scores, usd)
    return None


def write_seen(lab: Path, seen: Seen, file: Path | None = None) -> None:
    """Remember how the person left a lab. A folder that cannot be written is no reason to stop."""
    from kernel_lab.engine.lab_config import replace_file

    path, key = _path(file), str(lab.absolute())
    entries = {name: entry for name, entry in _read(path).items() if name != key}
    kept = dict(list(entries.items())[-LABS_REMEMBERED:])
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps({**kept, key: asdict(seen)}, indent=1))


def _path(file: Path | None) -> Path:
    from kernel_lab.engine import paths

    return paths.state_dir() / "seen.json" if file is None else file


def _read(path: Path) -> Mapping[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
