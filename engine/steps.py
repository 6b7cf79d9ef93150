"""Steps of one experiment that are recorded once: what a killed engine had written is not done again.

An experiment is ordinary code that asks for its steps in order. A step whose event stands in the ledger
answers from there; any other runs and is appended. So a resumed experiment walks through what is recorded
and goes on behind it, and its ledger ends as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kernel_lab.engine.events import Checked, Event
from kernel_lab.engine.facts import Check
from kernel_lab.engine.ledger.store import Ledger

E = TypeVar("E", bound=Event)


class Steps:
    """The recorded events of one experiment, and the only way to add to them."""

    def __init__(self, ledger: Ledger, experiment: int) -> None:
        self.ledger = ledger
        self.experiment = experiment
        self._events: list[Event] = [
            record.event for record in ledger.records(experiment=experiment) if record.event is not None
        ]

    def find(self, cls: type[E], /, **fields: Any) -> E | None:
        """The first recorded event of this kind whose fields equal the given ones."""
        for event in self._events:
            if isinstance(event, cls) and all(getattr(event, key) == value for key, value in fields.items()):
                return event
        return None

    def all(self, kind: type[E]) -> list[E]:
        """Every recorded event of this kind, oldest first."""
        return [event for event in self._events if isinstance(event, kind)]

    def record(self, *events: Event, blobs: Sequence[bytes] = ()) -> None:
        """Append in one transaction."""
        self.ledger.append(events, blobs=blobs)
        self._events.extend(events)

    def seen(self, event: Event) -> None:
        """Take note of an event about this experiment that somebody else appended."""
        self._events.append(event)

    def check_recorder(self, source_sha: str) -> Callable[[Check], None]:
        """A callback that records each check once, however often its gate is run again."""

        def record(check: Check) -> None:
            for event in self.all(Checked):
                done = event.check
                if event.source_sha == source_sha and (done.gate, done.case, done.probe) == (
                    check.gate,
                    check.case,
                    check.probe,
                ):
                    return
            self.record(Checked(self.experiment, check, source_sha))

        return record
