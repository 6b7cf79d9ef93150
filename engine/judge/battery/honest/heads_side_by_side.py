# title = "Heads as neighbours, two loops"
# class = "honest"
# task = "gqa_prefill"
# base = "seed"
# needs = "static"
# [[edit]]
# old = '"ORDER": "rows"'
# new = '"ORDER": "heads"'
# [[edit]]
# old = '        "TWO_LOOPS": False,'
# new = '        "TWO_LOOPS": True,'
# [[edit]]
# old = '        "EXP2": False,'
# new = '        "EXP2": True,'
