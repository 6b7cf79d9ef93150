# title = "Takes every input for contiguous"
# class = "wrong"
# kind = [40]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = "*k.stride()[:3], *v.stride()[:3],"
# new = "k.shape[1] * Sk * D, Sk * D, D, k.shape[1] * Sk * D, Sk * D, D,"
