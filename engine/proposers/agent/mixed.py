"""An agent and the search side by side: while the agent thinks, search fills the card.

The agent works in the background on one proposal at a time. Whenever the loop asks, it gets the agent's
proposal if one is ready, else the next move of search; when search has nothing new, it waits for the agent.
Both are credited under their own names. An agent's idea that was begun on an older champion meets the newest.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

from kernel_lab.engine.proposers.agent.agent import Agent
from kernel_lab.engine.proposers.base import (
    Answer,
    Elsewhere,
    Ended,
    Exhausted,
    Proposal,
    ProposalRequest,
    Say,
)
from kernel_lab.engine.proposers.search import Search

GRACE_S = 0.05
"""How long a call gives an agent that has just begun: one that answers at once goes first."""


class Mixed:
    """`agent` in the background, search in the meantime."""

    def __init__(self, agent: Agent) -> None:
        self.name = f"{agent.name}+search"
        self.agent = agent
        self.search = Search()
        self._working: dict[str, asyncio.Task[Answer]] = {}
        """The proposal that is made for each task."""
        self._said: dict[str, list[str]] = {}

    async def propose(self, request: ProposalRequest, say: Say) -> Answer:
        """The agent's proposal if it is ready, else one of search."""
        task = request.task.name
        working = self._working.get(task) or self._begin(request)
        await asyncio.wait({working}, timeout=GRACE_S)
        if not working.done():
            found = await self.search.propose(request, say)
            if isinstance(found, Proposal):
                return replace(found, proposer=self.search.name)
            say("Search has nothing new to try: waiting for the agent.\n")
            await self._wait(task, working, say)
        del self._working[task]
        answer = working.result()
        if isinstance(answer, Exhausted | Elsewhere | Ended):
            return answer
        return replace(answer, proposer=self.agent.name)

    def _begin(self, request: ProposalRequest) -> asyncio.Task[Answer]:
        task = request.task.name
        said = self._said[task] = []
        self._working[task] = asyncio.create_task(self.agent.propose(request, said.append))
        return self._working[task]

    async def _wait(self, task: str, working: asyncio.Task[Answer], say: Say) -> None:
        """Wait, and hand on what the agent says. A kill of this experiment ends its proposal too."""
        said = self._said[task]
        told = 0
        try:
            while not working.done():
                for piece in said[told:]:
                    say(piece)
                told = len(said)
                await asyncio.wait({working}, timeout=GRACE_S)
        except asyncio.CancelledError:
            self._working.pop(task, None)
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
            raise
        for piece in said[told:]:
            say(piece)

    async def close(self) -> None:
        working = list(self._working.values())
        self._working.clear()
        for one in working:
            one.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        await self.agent.close()
