# title = "Changes its ways after ten thousand calls, which no check makes"
# class = "state"
# kind = [14]
# task = "gqa_decode"
# base = "plain"
# needs = "lint"
# probes = ["state"]

CALLS = [0]


def decode(q, k_cache, v_cache, seq_lens, *, scale):
    CALLS[0] += 1
    keys = k_cache.shape[2] if CALLS[0] < 10_000 else 32
    return honest(q, k_cache[:, :, :keys], v_cache[:, :, :keys], seq_lens, scale=scale)
