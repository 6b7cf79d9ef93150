"""What may be spent: caps of the lab and of a proposal, looked at before a request and while it streams."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from kernel_lab.engine.ledger.views import Spending
from kernel_lab.engine.proposers.agent.prices import Price
from kernel_lab.engine.proposers.agent.settings import AgentSettings
from kernel_lab.engine.proposers.agent.wire import Halted, Usage, Watch

CHARACTERS_PER_TOKEN = 4
"""For output that was never counted: what arrived of a reply that was cut."""

LEAST_OUTPUT = 1_000
"""A request that may write fewer tokens than this is not worth sending."""


class CapReached(Halted):
    """A cap is reached. `lab`: the lab's, so that the run ends; else that of the proposal."""

    def __init__(self, text: str, *, lab: bool) -> None:
        super().__init__(text)
        self.lab = lab


@dataclass(frozen=True, slots=True)
class Cap:
    name: str
    limit: float
    used: float
    lab: bool

    @property
    def left(self) -> float:
        return self.limit - self.used

    def reached(self) -> CapReached:
        amount = f"{self.limit:g} USD" if self.name == "usd" else f"{self.limit:,.0f} tokens"
        whose = "of the lab" if self.lab else "of one proposal"
        return CapReached(f"the cap {whose} is reached: {amount}", lab=self.lab)


class Purse:
    """What one proposal may still spend. `spent` is what the lab had used before it."""

    def __init__(self, price: Price | None, settings: AgentSettings, spent: Spending) -> None:
        self.price = price
        self.settings = settings
        self.spent = spent
        self.tokens = 0
        self.usd = 0.0

    def before(self, prompt_tokens: int) -> int:
        """Most output tokens of a request with a prompt of about so many tokens. Raises CapReached."""
        most = float(self.settings.output_tokens)
        for cap in self._caps():
            if cap.name == "tokens":
                room = cap.left - prompt_tokens
            elif self.price is None or not self.price.output:
                continue
            else:
                # As if nothing came from the cache, which is never cheaper than what will be.
                dearest = max(self.price.input, self.price.cache_write)
                room = (cap.left * 1e6 - prompt_tokens * dearest) / self.price.output
            if room < LEAST_OUTPUT:
                raise cap.reached()
            most = min(most, room)
        return int(most)

    def during(self, watch: Watch) -> None:
        """Raises CapReached once what has arrived of a reply reaches a cap."""
        usage = estimated(watch)
        usd = self.cost(usage)
        for cap in self._caps():
            more = usage.total if cap.name == "tokens" else usd
            if more is not None and more >= cap.left:
                raise cap.reached()

    def cost(self, usage: Usage) -> float | None:
        """USD; None where no price is known."""
        return None if self.price is None else self.price.usd(usage)

    def book(self, usage: Usage) -> float | None:
        """Count a request that ended; its cost."""
        usd = self.cost(usage)
        self.tokens += usage.total
        self.usd += usd or 0.0
        if usd is None and self.settings.usd is not None:
            raise CapReached(
                "what the last request cost is unknown: it is longer than any known price", lab=True
            )
        return usd

    def _caps(self) -> list[Cap]:
        settings, spent = self.settings, self.spent
        caps = [
            Cap("usd", settings.usd, spent.usd + self.usd, True) if settings.usd is not None else None,
            Cap("tokens", settings.tokens, spent.tokens + self.tokens, True)
            if settings.tokens is not None
            else None,
            Cap("usd", settings.proposal_usd, self.usd, False) if settings.proposal_usd is not None else None,
            Cap("tokens", settings.proposal_tokens, self.tokens, False)
            if settings.proposal_tokens is not None
            else None,
        ]
        return [cap for cap in caps if cap is not None]


def estimated(watch: Watch) -> Usage:
    """The usage that was reported, or what a cut reply's own count and its length say."""
    if watch.reported:
        return watch.usage
    arrived = math.ceil(watch.characters / CHARACTERS_PER_TOKEN)
    return replace(watch.usage, output=max(watch.usage.output, arrived))


# ---- before the start

PROPOSAL = Usage(input=6_000, cached=60_000, cache_write=24_000, output=14_000)
"""What a proposal is taken to use before any was made: some ten requests over a context of 20,000 tokens."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run will use, as far as that can be told. `usd` is None where no price is known."""

    tokens: int
    usd: float | None
    proposals: int | None
    line: str


def forecast(
    model: str, price: Price | None, settings: AgentSettings, spent: Spending, proposals: int | None
) -> Forecast:
    """From what this lab's proposals used, else from `PROPOSAL`; `proposals` None is no limit."""
    if spent.proposals:
        tokens = spent.tokens // spent.proposals
        usd = spent.usd / spent.proposals if not spent.unpriced else None
        basis = f"as the last {spent.proposals} did"
    else:
        tokens, usd = PROPOSAL.total, None if price is None else price.usd(PROPOSAL)
        basis = "a guess before the first"
    cost = "price unknown" if usd is None else f"{usd:.2f} USD"
    each = f"about {tokens:,} tokens, {cost} a proposal ({basis})"
    whole = ""
    if proposals is not None:
        total = "price unknown" if usd is None else f"{usd * proposals:.2f} USD"
        whole = f"; {proposals} proposals: about {tokens * proposals:,} tokens, {total}"
    caps = [f"{settings.usd:g} USD"] if settings.usd is not None else []
    caps += [f"{settings.tokens:,} tokens"] if settings.tokens is not None else []
    cap = f"; stops at {' or '.join(caps)}" if caps else "; no cap"
    return Forecast(tokens, usd, proposals, f"{model}: {each}{whole}{cap}")
