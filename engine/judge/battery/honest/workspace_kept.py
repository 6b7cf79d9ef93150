# title = "Keeps one piece of scratch that grows, and fills it in every call"
# class = "honest"
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# quick = true
# [[edit]]
# old = "def decode(q, k_cache"
# new = "def unused(q, k_cache"
# [[edit]]
# old = "acc.to(x.dtype)"
# new = "acc.to(out.dtype.element_ty)"

WORKSPACE = {}


def scratch(count, device):
    known = WORKSPACE.get(device)
    if known is None or known.numel() < count:
        known = torch.empty(count, dtype=torch.float32, device=device)
        WORKSPACE[device] = known
    return known


@triton.jit
def finish_kernel(parts, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(parts + offsets, mask=inside, other=0.0)
    tl.store(out + offsets, x.to(out.dtype.element_ty), mask=inside)


def decode(q, k_cache, v_cache, seq_lens, *, scale: float):
    B, Hq, Sq, D = q.shape
    Hkv, Smax = k_cache.shape[1], k_cache.shape[2]
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    parts = scratch(out.numel(), q.device)
    group = Hq // Hkv
    decode_kernel[(Hkv, B)](
        q, k_cache, v_cache, seq_lens, parts, *q.stride()[:3], *k_cache.stride()[:3], *v_cache.stride()[:3],
        *out.stride()[:3], Sq, Smax, scale, GROUP=group, D=D, D_PAD=triton.next_power_of_2(D),
        BLOCK_M=max(16, triton.next_power_of_2(group * Sq)), BLOCK_N=CONFIG["*"]["BLOCK_N"], num_warps=4,
    )  # fmt: skip
    finish_kernel[(triton.cdiv(out.numel(), 1024),)](parts, out, out.numel(), BLOCK=1024, num_warps=4)
    return out
