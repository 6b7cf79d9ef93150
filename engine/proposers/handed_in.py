"""A candidate that a person handed in, as the proposal that the loop asks for."""

from __future__ import annotations

from kernel_lab.engine.errors import CandidateInvalid
from kernel_lab.engine.events import Submitted
from kernel_lab.engine.facts import Prediction, Reason
from kernel_lab.engine.proposers.base import Answer, Proposal, ProposalRequest, Refusal, Say
from kernel_lab.engine.proposers.people import read_candidate

LEVER = "handed_in"


class HandedIn:
    """Proposes one submitted text, whose tunables trials may settle."""

    name = "person"

    def __init__(self, submitted: Submitted, source: str) -> None:
        self.submitted = submitted
        self.source = source

    async def propose(self, request: ProposalRequest, say: Say) -> Answer:
        """The candidate as it was handed in; it answers the ideas that came with it."""
        try:
            _, space = read_candidate(self.source, request)
        except CandidateInvalid as error:  # by rules that came with an update
            return Refusal(Reason("scope", "candidate", str(error)))
        return Proposal(
            source=self.source,
            description=self.submitted.description,
            hypothesis="",
            prediction=Prediction(None, None),
            lever=LEVER,
            trial_space=space,
            ideas=self.submitted.ideas,
        )
