"""How an agent is set: the part of a lab's settings that is about agents, with their defaults."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.lab_config import LabConfig

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Limits of one proposal, caps of the lab, and where the model is. None is no limit, or not given."""

    model: str | None = None
    url: str | None = None
    effort: str | None = None
    key_variable: str | None = None
    """Name of the variable with the key, for a service other than the provider's own."""
    turns: int = 30
    seconds: float = 1200.0
    proposal_tokens: int | None = None
    proposal_usd: float | None = None
    context_tokens: int = 40_000
    output_tokens: int = 32_000
    """Most tokens of one reply."""
    ask_seconds: float = 300.0
    usd: float | None = None
    tokens: int | None = None
    uncapped: bool = False
    """A person agreed to spend without a cap."""
    passed: tuple[str, ...] = ()
    """Variables that an agent program gets from the environment."""
    retries: int = 6
    backoff_s: float = 1.0

    @classmethod
    def of(cls, config: LabConfig) -> AgentSettings:
        """From lab.toml. Raises UsageError for a URL or a name that is none."""
        given = {
            "model": config.agent_model,
            "url": None if config.agent_url is None else checked_url(config.agent_url),
            "effort": config.agent_effort,
            "key_variable": None if config.agent_key is None else _variable("agent_key", config.agent_key),
            "turns": config.agent_turns,
            "seconds": config.agent_seconds,
            "proposal_tokens": config.agent_tokens,
            "proposal_usd": config.agent_usd,
            "context_tokens": config.agent_context,
            "ask_seconds": config.agent_ask_seconds,
            "passed": tuple(
                _variable("agent_env", name) for name in (config.agent_env or "").split(",") if name
            ),
        }
        known = {name: value for name, value in given.items() if value is not None}
        return cls(usd=config.usd, tokens=config.tokens, uncapped=bool(config.agent_uncapped), **known)  # type: ignore[arg-type]


def checked_url(url: str) -> str:
    """A service's address without a slash at its end. Raises UsageError, also for one that holds a key."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"agent_url is {url[:80]!r}: give an address such as http://localhost:11434/v1")
    if parts.username or parts.password or parts.query:
        raise UsageError("agent_url holds more than an address: put the key into a variable (agent_key)")
    if parts.scheme == "http" and not is_here(url):
        raise UsageError(
            f"agent_url {url[:80]} would send everything unencrypted: use https beyond this machine"
        )
    return url.rstrip("/")


def is_here(url: str) -> bool:
    """Whether an address is on this machine or on a private network."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False


def is_loopback(url: str) -> bool:
    """Whether an address is on this very machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _variable(setting: str, name: str) -> str:
    if not VARIABLE.fullmatch(name.strip()):
        raise UsageError(f"{setting} is {name[:60]!r}: name a variable, never a key itself")
    return name.strip()
