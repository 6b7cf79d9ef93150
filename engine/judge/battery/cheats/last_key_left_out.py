# title = "Leaves out the newest key"
# class = "skipped"
# kind = [34]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["compare"]
# [[edit]]
# old = '''
#     ends = length - Sq + 1 + query
# '''
# new = '''
#     ends = length - Sq + query
# '''
