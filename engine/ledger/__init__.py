"""The lab's memory: one SQLite file of hash-chained events, what is derived from them, and a git view."""
