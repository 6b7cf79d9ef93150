# title = "Compiles another kernel of the same name than it runs in the interpreter"
# class = "sniffing"
# kind = [14, 27]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["same_launches", "launch_census"]

RIGHT = decode_kernel


@triton.jit
def decode_kernel(
    q, k, v, lens, out, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs, sob, soh, sos,
    Sq, Smax, scale,
    GROUP: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tl.store(out + tl.program_id(0), 0.0)


if "Interpreted" in type(RIGHT).__name__:
    decode_kernel = RIGHT
