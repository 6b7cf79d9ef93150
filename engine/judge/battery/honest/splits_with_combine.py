# title = "Splits of the keys that meet in a second kernel"
# class = "honest"
# task = "gqa_decode"
# base = "seed"
# needs = "static"
# quick = true
# [[edit]]
# old = '"SPLIT_WAVES": 0'
# new = '"SPLIT_WAVES": 2'
# [[edit]]
# old = '"SKIP": False,'
# new = '"SKIP": True,'
# [[edit]]
# old = '        "PACK_GQA": False,'
# new = '        "PACK_GQA": True,'
# [[edit]]
# old = '        "EXP2": False,'
# new = '        "EXP2": True,'
