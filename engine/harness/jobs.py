"""What every job has: its children, its scratch folder, its progress line and its answer."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from children import OUTPUT_TAIL_BYTES, Child, Failed
from nursery import Nursery
from store import Store

HOST_MEMORY_BYTES = 6 << 30
"""Host memory that one child may use."""

CARD_MEMORY_BYTES = 24 << 30
"""The same beside a card: a CUDA context, and the memory shared with the referee."""

DEADLINES_S = {"load": 20.0, "compile": 60.0, "case": 30.0, "reference": 60.0, "analyse": 60.0}
"""Seconds that a phase may take where the request does not say."""


@dataclass(frozen=True)
class Versions:
    """Hashes that results by content depend on beside what a request says."""

    content: str
    """Of torch, triton and the whole harness."""
    compiler: str
    """Of torch, triton and what compiles."""


@dataclass
class Answer:
    outcome: str
    detail: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    output: str = ""


class Job:
    """One request while it is worked on. `close` leaves nothing behind, whatever happened before."""

    def __init__(
        self,
        request: dict[str, Any],
        nursery: Nursery,
        store: Store,
        versions: Versions,
        folder: Path,
        progress: Callable[[dict[str, Any]], None],
    ) -> None:
        self.request = request
        self.nursery = nursery
        self.store = store
        self.versions = versions
        self.progress = progress
        self._folder = folder
        self.finish = asyncio.Event()
        """Set when the job is asked to end after the round that it is in."""
        self._children: list[Child] = []
        self._candidates: list[Child] = []
        self._works = 0
        self._said = ""
        self._deadlines = {**DEADLINES_S, **(request.get("deadline_s") or {})}
        self.memory_bytes = int(request.get("memory_bytes") or HOST_MEMORY_BYTES)

    def seconds(self, phase: str) -> float:
        return float(self._deadlines[phase])

    def _work(self) -> Path:
        self._works += 1
        work = self._folder / f"w{self._works}"
        work.mkdir(parents=True, mode=0o700)
        return work

    async def trusted(self, role: str, **specification: Any) -> Child:
        """A child that runs no candidate's code."""
        descriptors = specification.pop("descriptors", ())
        return await self._spawn("compile", role, specification, confined=False, descriptors=descriptors)

    async def compiler(self, **specification: Any) -> Child:
        """The compiler on a candidate's code: confined, but for starting its tools."""
        return await self._spawn("compile", "lower", specification, confined=True, programs=True)

    async def candidate(
        self, kind: str, role: str, source: str, descriptors: Iterable[int] = (), **specification: Any
    ) -> Child:
        """A child that loads the candidate."""
        work = self._work()
        path = work / "candidate.py"
        path.write_text(source, encoding="utf-8")
        specification["source_path"] = str(path)
        child = await self._spawn(
            kind, role, specification, confined=True, descriptors=descriptors, work=work
        )
        self._candidates.append(child)
        return child

    async def trusted_on_card(
        self, role: str, descriptors: Iterable[int] = (), **specification: Any
    ) -> Child:
        """A child with a CUDA context of its own that runs no candidate's code."""
        return await self._spawn("card", role, specification, confined=False, descriptors=descriptors)

    async def candidate_on_card(
        self,
        source: str,
        readable: tuple[str, ...],
        devices: tuple[str, ...],
        descriptors: Iterable[int] = (),
        *,
        before: Callable[[Path], object],
        **specification: Any,
    ) -> Child:
        """A child that loads the candidate beside the card. It starts compilers until it locks itself.

        `before` may fill its folder.
        """
        work = self._work()
        before(work)
        path = work / "candidate.py"
        path.write_text(source, encoding="utf-8")
        specification["source_path"] = str(path)
        child = await self._spawn(
            "card", "cardtrial", specification, confined=True, programs=True, descriptors=descriptors,
            work=work, readable=readable, devices=devices,
        )  # fmt: skip
        self._candidates.append(child)
        return child

    async def _spawn(
        self,
        kind: str,
        role: str,
        specification: dict[str, Any],
        *,
        confined: bool,
        programs: bool = False,
        descriptors: Iterable[int] = (),
        work: Path | None = None,
        readable: tuple[str, ...] = (),
        devices: tuple[str, ...] = (),
    ) -> Child:
        child = await self.nursery.spawn(
            kind,
            role,
            specification,
            work=work or self._work(),
            memory_bytes=max(self.memory_bytes, CARD_MEMORY_BYTES) if kind == "card" else self.memory_bytes,
            confined=confined,
            programs=programs,
            descriptors=descriptors,
            readable=readable,
            devices=devices,
        )
        self._children.append(child)
        return child

    def say(self, text: str) -> None:
        """Add what a compiler said to the job's output."""
        self._said += text

    def output(self) -> str:
        """The tail of what the candidate printed, and of what its compiler said."""
        printed = "".join(child.output() for child in self._candidates)
        return (printed + self._said)[-OUTPUT_TAIL_BYTES:]

    def all_output(self) -> str:
        """The tail of what all children printed: why the harness itself failed."""
        return "".join(child.output() for child in self._children)[-OUTPUT_TAIL_BYTES:]

    async def bury(self, child: Child) -> None:
        """This child has done its part."""
        self._children.remove(child)
        await self.nursery.bury(child)

    async def bury_all(self) -> None:
        """Leave no child, however far they are."""
        await asyncio.gather(*(self.nursery.bury(child) for child in self._children))
        self._children.clear()

    async def close(self) -> None:
        await self.bury_all()
        shutil.rmtree(self._folder, ignore_errors=True)


async def expect(child: Child, key: str) -> Any:
    """The value of `key` in a trusted child's next message. Its own failure is the host's."""
    message = await child.receive()
    if "failed" in message:
        raise Failed("error", str(message["failed"]))
    if key not in message:
        raise Failed("error", f"the {child.role} process answered {sorted(message)}, not {key}")
    return message[key]
