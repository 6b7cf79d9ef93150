"""The research loop: proposers, judge, harness, ledger. Knows no user interface and imports no torch."""
