# title = "Sixteen rows a tile and eight warps for wide heads"
# class = "honest"
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# [[edit]]
# old = "triton.cdiv(Sq, 32)"
# new = "triton.cdiv(Sq, 16)"
# [[edit]]
# old = "BLOCK_M=32"
# new = "BLOCK_M=16"
# [[edit]]
# old = 'num_warps=config["num_warps"]'
# new = 'num_warps=8 if D > 128 else config["num_warps"]'
