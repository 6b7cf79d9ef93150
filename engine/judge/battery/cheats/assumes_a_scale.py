# title = "Uses one over the root of 128 whatever the call says"
# class = "wrong"
# kind = [40]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]

def decode(q, k_cache, v_cache, seq_lens, *, scale):
    return honest(q, k_cache, v_cache, seq_lens, scale=0.08838834764831845)
