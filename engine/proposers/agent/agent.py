"""A model behind a service as a proposer: context in, dialogue, candidate out."""

from __future__ import annotations

from kernel_lab.engine.errors import ProposerError
from kernel_lab.engine.proposers.agent.budget import Purse
from kernel_lab.engine.proposers.agent.context import build_context
from kernel_lab.engine.proposers.agent.dialogue import Dialogue
from kernel_lab.engine.proposers.agent.prices import Price
from kernel_lab.engine.proposers.agent.redact import Redactor
from kernel_lab.engine.proposers.agent.settings import AgentSettings
from kernel_lab.engine.proposers.agent.wire import Prompt, Provider
from kernel_lab.engine.proposers.base import Answer, ProposalRequest, Say


class Agent:
    """Proposes what a model writes. Holds no memory: each proposal starts from the ledger."""

    def __init__(
        self, provider: Provider, settings: AgentSettings, price: Price | None, redactor: Redactor
    ) -> None:
        self.name = provider.name
        self.provider = provider
        self.settings = settings
        self.price = price
        self.redactor = redactor

    async def propose(self, request: ProposalRequest, say: Say) -> Answer:
        """One dialogue. Raises ProposerError where there is no bench to work on."""
        if request.bench is None:
            raise ProposerError("an agent needs a lab's bench: run it within a lab")
        context = build_context(request, token_budget=self.settings.context_tokens)
        # What people said until now is in the context: from here on it is news.
        request.bench.heard()
        prompt = Prompt(self.redactor(context.prefix), self.redactor(context.changing))
        purse = Purse(self.price, self.settings, request.bench.spending())
        dialogue = Dialogue(
            self.provider, request, request.bench, self.settings, purse, self.redactor, say, self.name
        )
        return await dialogue.run(prompt)

    async def close(self) -> None:
        await self.provider.close()
