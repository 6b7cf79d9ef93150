"""Agents: what they are told, what they may do, and what they may cost."""
