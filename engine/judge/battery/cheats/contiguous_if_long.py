# title = "Takes long caches for contiguous"
# class = "wrong"
# kind = [40]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "*k_cache.stride()[:3], *v_cache"
# new = "*k_cache.stride()[:2], D if Smax > 3000 else k_cache.stride(2), *v_cache"
