"""A small task for tests of whole labs: the prefill operator with one short workload and small checks."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from kernel_lab.engine.tasks import load_task

NAME = "tiny_prefill"


def tiny_task(folder: Path) -> Path:
    """Write the task into `folder`; its own folder."""
    shipped, own = load_task("gqa_prefill").folder, folder / NAME
    shutil.copytree(shipped, own, ignore=shutil.ignore_patterns("champions", "__pycache__"))
    kept = []
    for block in re.split(r"(?m)^(?=\[)", (shipped / "task.toml").read_text()):
        if block.startswith("[[workload]]"):
            if "prefill-causal-s512" not in block:
                continue
            block = block.replace("= 512\n", "= 256\n").replace("weight = 0.20", "weight = 1.0")
        if block.startswith("[[static_case]]"):
            if "rows-without-keys" not in block:
                continue
            block = block.replace("Sq = 100", "Sq = 20").replace("Sk = 61", "Sk = 9")
        if block.startswith("[hidden.static]"):
            block = re.sub(r"(?m)^(Sq|Sk) = .*", r"\1 = { min = 1, max = 24 }", block)
            block = re.sub(r"group = .*", "group = [1]", block)
        if block.startswith("[hidden]"):
            block = re.sub(r"D = .*", "D = [64]", block)
        kept.append(block)
    text = "".join(kept).replace('name = "gqa_prefill"', f'name = "{NAME}"')
    (own / "task.toml").write_text(text)
    return own
