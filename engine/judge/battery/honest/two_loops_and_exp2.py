# title = "Whole blocks without masks first, base-2 exponentials, programs of a head side by side"
# class = "honest"
# task = "gqa_decode"
# base = "seed"
# needs = "static"
# [[edit]]
# old = '        "TWO_LOOPS": False,'
# new = '        "TWO_LOOPS": True,'
# [[edit]]
# old = '        "EXP2": False,'
# new = '        "EXP2": True,'
# [[edit]]
# old = '        "SKIP": False,'
# new = '        "SKIP": True,'
# [[edit]]
# old = '"ORDER": "heads"'
# new = '"ORDER": "splits"'
