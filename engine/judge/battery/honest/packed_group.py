# title = "The heads of a group in one tile, long programs first"
# class = "honest"
# task = "gqa_prefill"
# base = "seed"
# needs = "static"
# [[edit]]
# old = '        "PACK_GQA": False,'
# new = '        "PACK_GQA": True,'
# [[edit]]
# old = '        "LONGEST_FIRST": False,'
# new = '        "LONGEST_FIRST": True,'
# [[edit]]
# old = '        "SKIP": False,'
# new = '        "SKIP": True,'
