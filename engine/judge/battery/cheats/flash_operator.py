# title = "Calls the flash operator below torch's own functions"
# class = "library"
# kind = [26]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["aten_census", "launch_census", "idle_kernels", "compare", "crash"]

def decode(q, k_cache, v_cache, seq_lens, *, scale):
    out = honest(q, k_cache, v_cache, seq_lens, scale=scale)
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    group = q.shape[1] // k_cache.shape[1]
    keys = [x.repeat_interleave(group, 1) for x in (k_cache, v_cache)]
    out.copy_(flash(q, *keys, 0.0, False, scale=scale)[0])
    return out
