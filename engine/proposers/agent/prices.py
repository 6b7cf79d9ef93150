"""What a model's tokens cost, from settings files; a price that nobody gave is unknown, never guessed."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from kernel_lab.engine import paths
from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.proposers.agent.wire import Usage

SHIPPED = Path(__file__).with_name("prices.toml")
NAME = "prices.toml"
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens. `up_to`: the longest prompt, in tokens, that the price holds for."""

    input: float
    output: float
    cached: float
    cache_write: float
    up_to: int | None = None

    def usd(self, usage: Usage) -> float | None:
        """What one request costs; None where the price does not hold for it."""
        if self.up_to is not None and usage.prompt > self.up_to:
            return None
        return (
            usage.input * self.input
            + usage.cached * self.cached
            + usage.cache_write * self.cache_write
            + usage.output * self.output
        ) / MILLION


FREE = Price(0.0, 0.0, 0.0, 0.0)
"""A service on this machine that asks for no key."""


def own_prices() -> Path:
    """The person's own prices."""
    return paths.config_dir() / NAME


def price_of(model: str) -> Price | None:
    """The price of a model by its exact name, from the person's own file first. Raises UsageError."""
    for path in (own_prices(), SHIPPED):
        if path.is_file():
            table = _read(path)
            if model in table:
                return _price(path, model, table[model])
    return None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): make it readable or remove it") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML ({error}): mend that line") from None


def _price(path: Path, model: str, entry: object) -> Price:
    names = [field.name for field in fields(Price)]
    if not isinstance(entry, dict):
        raise UsageError(f"{path}: {model} is no table: give [{model}] with {', '.join(names[:4])}")
    for key, value in entry.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if key not in names or not number or not 0 <= value < float("inf"):
            raise UsageError(
                f"{path}: {model}: {key} = {value!r} is no price: use numbers for {', '.join(names)}"
            )
    missing = [name for name in names[:4] if name not in entry]
    if missing:
        raise UsageError(f"{path}: {model} has no {missing[0]}: give all of {', '.join(names[:4])}")
    return Price(**entry)
