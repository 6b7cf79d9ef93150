# title = "Lets the first of several queries see the later ones"
# class = "wrong"
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
#     ends = length + 0 * query
# '''
