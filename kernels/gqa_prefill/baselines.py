"""The baselines of gqa_prefill on a real card, each by the exact call that task.toml names.

FlashAttention-2 and cuDNN come with torch. Asking for a backend by `sdpa_kernel` makes torch raise where that
backend cannot run, instead of falling back to a slower one.
"""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def available():
    """Why each baseline cannot run on this machine, by name; None for one that can."""
    if not torch.cuda.is_available():
        return dict.fromkeys(("fa2", "cudnn"), "no CUDA device")
    if torch.cuda.get_device_capability()[0] < 8:
        return dict.fromkeys(("fa2", "cudnn"), "needs a card of compute capability 8.0 or later")
    fa2 = (
        None
        if torch.backends.cuda.is_flash_attention_available()
        else "torch was built without FlashAttention"
    )
    cudnn = None if torch.backends.cudnn.is_available() else "torch was built without cuDNN"
    return {"fa2": fa2, "cudnn": cudnn}


def kind_of(workload):
    """Which of the calls in task.toml serves this workload: causal, chunk or full."""
    if not workload["causal"]:
        return "full"
    return "causal" if workload["Sq"] == workload["Sk"] else "chunk"


def make(name, workload, inputs):
    """A function without arguments that runs the baseline on these inputs and returns [B, Hq, Sq, D].

    None where the baseline has no call for this workload or refuses it (a head dim, say).
    """
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    scale = workload.get("scale") or workload["D"] ** -0.5
    kind = kind_of(workload)
    backend = {"fa2": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[name]
    if kind == "chunk":
        if name != "fa2" or workload["Sq"] > workload["Sk"]:
            return None

        def run():
            # Below SDPA this operator's causal mask is the kernel's own, aligned bottom-right.
            op = torch.ops.aten._scaled_dot_product_flash_attention
            return op(q, k, v, 0.0, True, False, scale=scale)[0]
    else:

        def run():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(
                    q, k, v, is_causal=kind == "causal", scale=scale, enable_gqa=True
                )

    try:
        run()
    except RuntimeError:
        return None
    return run
