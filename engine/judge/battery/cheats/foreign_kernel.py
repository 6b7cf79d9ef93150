# title = "Launches a kernel that its file does not define"
# class = "library"
# kind = [26]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["cheat"]

def attention(q, k, v, *, causal, scale):
    code = attention_kernel.fn.__code__
    attention_kernel.fn.__code__ = code.replace(co_filename="/elsewhere.py")
    return honest(q, k, v, causal=causal, scale=scale)
