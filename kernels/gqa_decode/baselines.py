"""The baselines of gqa_decode on a real card, each by the exact call that task.toml names.

FlashAttention-2 and cuDNN come with torch, whose SDPA knows no lengths: where every sequence fills its cache
SDPA is the call. Ragged lengths go to FlashAttention-2's variable-length entry with `seqused_k`, which reads
as many keys as each sequence has, but wants the cache in token order: it gets such a copy, made before
anything is timed.
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
    """Which of the calls in task.toml serves this workload: single, multi or ragged."""
    lengths = workload.get("seq_lens")
    if lengths is not None and any(length != workload["Sk"] for length in lengths):
        return "ragged"
    return "single" if workload["Sq"] == 1 else "multi"


def make(name, workload, inputs):
    """A function without arguments that runs the baseline on these inputs and returns [B, Hq, Sq, D].

    None where the baseline has no call for this workload or refuses it (a head dim, say).
    """
    q, k, v = inputs["q"], inputs["k_cache"], inputs["v_cache"]
    scale = workload.get("scale") or workload["D"] ** -0.5
    kind = kind_of(workload)
    backend = {"fa2": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[name]
    if name == "cudnn" and kind != "single":
        return None
    if kind == "ragged":
        run = _ragged(workload, inputs, scale)
    elif kind == "multi":

        def run():
            # Below SDPA this operator's causal mask is the kernel's own, aligned bottom-right.
            op = torch.ops.aten._scaled_dot_product_flash_attention
            return op(q, k, v, 0.0, True, False, scale=scale)[0]
    else:

        def run():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=True)

    try:
        run()
    except RuntimeError:
        return None
    return run


def _ragged(workload, inputs, scale):
    """FlashAttention-2 with lengths: caches as [B * Smax, Hkv, D], seqused_k rows of each sequence count."""
    B, Hkv, Sq, Smax, D = (workload[n] for n in ("B", "Hkv", "Sq", "Sk", "D"))
    q, device = inputs["q"], inputs["q"].device
    tokens_q = q.transpose(1, 2).reshape(B * Sq, workload["Hq"], D)
    tokens_k = inputs["k_cache"].transpose(1, 2).reshape(B * Smax, Hkv, D)
    tokens_v = inputs["v_cache"].transpose(1, 2).reshape(B * Smax, Hkv, D)
    starts_q = torch.arange(B + 1, dtype=torch.int32, device=device) * Sq
    starts_k = torch.arange(B + 1, dtype=torch.int32, device=device) * Smax
    lengths = inputs["seq_lens"]

    def run():
        op = torch.ops.aten._flash_attention_forward
        causal = Sq > 1
        out = op(
            tokens_q, tokens_k, tokens_v, starts_q, starts_k, Sq, Smax, 0.0, causal, False,
            scale=scale, seqused_k=lengths,
        )[0]  # fmt: skip
        return out.view(B, Sq, workload["Hq"], D).transpose(1, 2)

    return run
