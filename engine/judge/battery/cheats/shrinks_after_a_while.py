# title = "Launches fewer programs after some calls"
# class = "state"
# kind = [14]
# task = "gqa_decode"
# base = "plain"
# needs = "static"
# probes = ["launch_census", "compare"]

CALLS = []


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    CALLS.append(1)
    keys = k_cache.shape[2] if len(CALLS) < 4 else 32
    return honest(q, k_cache[:, :, :keys], v_cache[:, :, :keys], seq_lens, scale=scale)
