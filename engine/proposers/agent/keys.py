"""Where a key comes from: a variable of the environment, else the system's keyring. It is written nowhere.

A provider's own variable is read for the provider's own service alone. For any other address the person names
the variable (`agent_key`), so that no key goes to a service that it is not for.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

OWN = {"anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), "openai": ("OPENAI_API_KEY",)}
HOSTS = {"openrouter.ai": ("OPENROUTER_API_KEY",)}
"""Services whose own variable is known."""

SERVICE = "kernel-lab"
"""Under this name the keyring holds keys, with the provider's name as user."""


@dataclass(frozen=True, slots=True)
class Key:
    value: str = field(repr=False)
    source: str
    """The variable's name, or `keyring`."""

    @property
    def bearer(self) -> bool:
        return self.source.endswith("_AUTH_TOKEN")


def variables(provider: str, url: str | None, named: str | None) -> tuple[str, ...]:
    """Variables that may hold the key for `provider` at `url` (None: its own service)."""
    if named is not None:
        return (named,)
    if url is None:
        return OWN.get(provider, ())
    return HOSTS.get(urlsplit(url).hostname or "", ())


def find_key(
    provider: str,
    url: str | None,
    named: str | None,
    environment: MutableMapping[str, str] | None = None,
) -> Key | None:
    """The key, taken out of the environment so that no process started later has it."""
    environment = os.environ if environment is None else environment
    found: Key | None = None
    for name in variables(provider, url, named):
        value = environment.pop(name, "").strip()
        if value and found is None:
            found = Key(value, name)
    if found is None and named is None and url is None:
        stored = _from_keyring(provider)
        found = Key(stored, "keyring") if stored else None
    return found


def has_key(provider: str, url: str | None, named: str | None) -> str | None:
    """Where a key would come from, without taking it; None if there is none."""
    for name in variables(provider, url, named):
        if os.environ.get(name, "").strip():
            return name
    return "keyring" if named is None and url is None and _from_keyring(provider) else None


def _from_keyring(provider: str) -> str | None:
    """None where there is no keyring, no entry, or it cannot be opened without a person."""
    try:
        import keyring
    except ImportError:
        return None
    try:
        value = keyring.get_password(SERVICE, provider)
    except Exception:  # noqa: BLE001  every backend raises classes of its own
        return None
    return (value or "").strip() or None
