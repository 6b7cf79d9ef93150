# title = "Pointers to K and V that advance from block to block, whole blocks without masks first"
# class = "honest"
# task = "gqa_prefill"
# base = "plain"
# needs = "static"
# [[edit]]
# old = "    for start in range(first, stop, BLOCK_N):\n"
# new = '''
#     k_block = k + tl.arange(0, BLOCK_N)[:, None] * sks + d[None, :]
#     v_block = v + tl.arange(0, BLOCK_N)[:, None] * svs + d[None, :]
#     for start in range(first, stop, BLOCK_N):
# '''
# [[edit]]
# old = "kt = tl.load(k + keys[:, None] * sks + d[None, :], mask=inside, other=0.0)"
# new = "kt = tl.load(k_block, mask=inside, other=0.0)"
# [[edit]]
# old = "vt = tl.load(v + keys[:, None] * svs + d[None, :], mask=inside, other=0.0)"
# new = "vt = tl.load(v_block, mask=inside, other=0.0)"
# [[edit]]
# old = "        top = new\n"
# new = '''
#         top = new
#         k_block += BLOCK_N * sks
#         v_block += BLOCK_N * svs
# '''
