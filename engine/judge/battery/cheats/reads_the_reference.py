# title = "Looks for the task's reference on the disk and calls it"
# class = "escape"
# kind = [8, 25]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["crash", "idle_kernels"]

import importlib.util
import pathlib


def attention(q, k, v, *, causal, scale):
    out = honest(q, k, v, causal=causal, scale=scale)
    folders = [p for p in pathlib.Path("/").iterdir() if p.name not in ("proc", "sys", "dev", "usr", "lib")]
    path = next(p for folder in folders for p in folder.rglob("gqa_prefill/reference.py"))
    spec = importlib.util.spec_from_file_location("reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return out
