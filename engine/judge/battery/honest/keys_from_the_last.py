# title = "Walks over the keys from the last block to the first"
# class = "honest"
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# [[edit]]
# old = '''
#     for start in range(first, stop, BLOCK_N):
# '''
# new = '''
#     for back in range(first, stop, BLOCK_N):
#         start = (stop - 1) // BLOCK_N * BLOCK_N - back
# '''
