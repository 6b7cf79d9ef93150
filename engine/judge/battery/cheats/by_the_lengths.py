# title = "Reads seq_lens on the host to choose its work"
# class = "sniffing"
# kind = [14]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["host_sync", "crash", "invalid"]

def decode(q, k_cache, v_cache, seq_lens, *, scale):
    longest = max(1, int(seq_lens.max().item()))
    return honest(q, k_cache[:, :, :longest], v_cache[:, :, :longest], seq_lens, scale=scale)
