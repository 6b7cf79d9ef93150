# title = "Gives heads to KV heads in turn"
# class = "wrong"
# kind = [34]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]

def decode(q, k_cache, v_cache, seq_lens, *, scale):
    B, Hq, Sq, D = q.shape
    Hkv = k_cache.shape[1]
    turned = q.view(B, Hq // Hkv, Hkv, Sq, D).transpose(1, 2).reshape(B, Hq, Sq, D)
    out = honest(turned, k_cache, v_cache, seq_lens, scale=scale)
    return out.view(B, Hkv, Hq // Hkv, Sq, D).transpose(1, 2).reshape(B, Hq, Sq, D)
