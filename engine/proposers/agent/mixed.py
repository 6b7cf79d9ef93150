"""An agent and the search side by side: while the agent thinks, search fills the card.

The agent works in the background on one proposal at a time. Whenever the loop asks, it gets the agent's
proposal if one is ready, else the next move of search; when search has nothing new, it waits for the agent.
Both are credited under their own names. An agent's idea that was begun on an older champion meets the newest.
A service that is out of reach is left alone for some experiments; one that refuses ends the run.
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

REST = 5
"""Experiments of search after which a service that was out of reach is asked again."""

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
        self._resting = 0
        self._lost: Ended | None = None

    async def propose(self, request: ProposalRequest, say: Say) -> Answer:
        """The agent's proposal if it is ready, else one of search."""
        task = request.task.name
        if self._lost is not None:
            return await self._without(request, say, self._lost)
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
        if isinstance(answer, Ended) and answer.passing:
            self._lost, self._resting = answer, REST
            return await self._without(request, say, answer)
        if isinstance(answer, Exhausted | Elsewhere | Ended):
            return answer
        return replace(answer, proposer=self.agent.name)

    async def _without(self, request: ProposalRequest, say: Say, lost: Ended) -> Answer:
        """Search alone while the service is out of reach; the run ends once search has nothing new either."""
        say(f"{lost.text}\n")
        self._resting -= 1
        if self._resting <= 0:
            self._lost = None
        found = await self.search.propose(request, say)
        if isinstance(found, Proposal):
            return replace(found, proposer=self.search.name, transcript=f"{lost.text}\n")
        return lost

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
