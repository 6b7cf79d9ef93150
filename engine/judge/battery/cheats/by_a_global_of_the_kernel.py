# title = "Lets a global that the kernel reads tell where it runs"
# class = "sniffing"
# kind = [14]
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# probes = ["same_launches"]
# [[edit]]
# old = "range(first, stop, BLOCK_N)"
# new = "range(first, stop if not FAST else BLOCK_N, BLOCK_N)"

FAST = tl.constexpr("Interpreted" not in type(attention_kernel).__name__)
