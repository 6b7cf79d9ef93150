"""What a race has shown besides its times: comparisons of timed answers, two clocks, and the launches."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cardprobes import is_layout_node, one_check

if TYPE_CHECKING:
    from cardclock import Track
    from compare import Comparison

CLOCK_SHARE = 0.03
CLOCK_US = 100.0
USUAL_GAP_US = 300.0
"""Between order and answer lie some wake-ups: as many microseconds as for a baseline, whose process is clean,
or so many where none races. Beyond that and this share the two clocks must agree."""
EARLY_SHARE = 1.5
EARLY_US = 1000.0
"""New contents are taken by the same code everywhere; work that begins with them, before its time, shows."""
FETCH_SHARE = 0.3
FETCH_US = 4000.0
"""Fetching a slice that is there takes no longer; computing it when asked would."""


class Report:
    def __init__(self) -> None:
        self._blocks: dict[tuple[str, str], list[tuple[float, float]]] = {}
        self._fetches: dict[tuple[str, str], list[float]] = {}
        self._compared: dict[tuple[str, str], list[tuple[Comparison, bool]]] = {}
        self._captures: dict[tuple[str, str], dict[str, Any]] = {}
        self._calls: dict[str, int] = {}
        self._renewals: dict[tuple[str, str], list[float]] = {}
        self._phases: dict[str, float] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Seconds of the clock's time by what it does."""
        started = time.monotonic()
        yield
        self._phases[name] = self._phases.get(name, 0.0) + time.monotonic() - started

    def renewed(self, workload: str, name: str, host_us: float) -> None:
        self._renewals.setdefault((workload, name), []).append(host_us)

    def captured(self, track: Track, name: str, found: dict[str, Any]) -> None:
        self._captures[track.name, name] = found
        self._calls[track.name] = track.calls

    def block(self, workload: str, name: str, device_us: float, host_us: float) -> None:
        self._blocks.setdefault((workload, name), []).append((device_us, host_us))

    def fetched(self, workload: str, name: str, host_us: float) -> None:
        self._fetches.setdefault((workload, name), []).append(host_us)

    def compared(self, workload: str, name: str, found: Comparison, whole: bool = False) -> None:
        self._compared.setdefault((workload, name), []).append((found, whole))

    @property
    def wrong(self) -> bool:
        return any(not found.ok for all_found in self._compared.values() for found, _ in all_found)

    def facts(self, gate: str, sources: list[str]) -> dict[str, Any]:
        launches: dict[str, Any] = {}
        clocks: dict[str, Any] = {}
        for (workload, name), found in self._captures.items():
            calls = self._calls[workload]
            launches.setdefault(name, {})[workload] = [
                {"kernel": kernel, "grid": grid, "count": count / calls}
                for kernel, grid, count in found["nodes"]
            ]
        for (workload, name), pairs in self._blocks.items():
            device, host = (statistics.median(column) for column in zip(*pairs, strict=True))
            gap = statistics.median(host - device for device, host in pairs)
            fetches = self._fetches.get((workload, name))
            clocks.setdefault(name, {})[workload] = {
                "block_us": round(device, 1),
                "host_us": round(host, 1),
                "gap_us": round(gap, 1),
                "renew_us": round(statistics.median(self._renewals[workload, name]), 1),
                "fetch_us": round(statistics.median(fetches), 1) if fetches else None,
                "launch_us": round(self._captures[workload, name].get("eager_us", 0.0), 2),
            }
        checks = {name: self._checks(gate, name, clocks, sources) for name in sources}
        phases = {name: round(seconds, 3) for name, seconds in self._phases.items()}
        return {"launches": launches, "clocks": clocks, "compared": checks, "phases": phases}

    def _checks(
        self, gate: str, name: str, every: dict[str, Any], sources: list[str]
    ) -> list[dict[str, Any]]:
        """The checks of one source."""
        found = [
            self._comparison(gate, workload, results)
            for (workload, who), results in self._compared.items()
            if who == name
        ]
        clocks = every.get(name, {})
        late, apart, census, memory = [], [], [], []
        for workload, clock in clocks.items():
            usual = min(others[workload]["renew_us"] for others in every.values() if workload in others)
            if clock["renew_us"] > EARLY_SHARE * usual + EARLY_US:
                late.append(
                    f"{workload}: {clock['renew_us']:.0f} us to take new contents, others {usual:.0f}"
                )
            clean = [
                rows[workload]["gap_us"]
                for who, rows in every.items()
                if who not in sources and workload in rows
            ]
            gap_us = min(clean, default=USUAL_GAP_US) + CLOCK_US
            if clock["gap_us"] > CLOCK_SHARE * clock["host_us"] + gap_us:
                apart.append(
                    f"{workload}: its device clock says {clock['block_us']:.0f} us a block, the host's "
                    f"{clock['host_us']:.0f} us"
                )
            if (clock["fetch_us"] or 0.0) > FETCH_SHARE * clock["block_us"] + FETCH_US:
                taken = clock["renew_us"]
                late.append(f"{workload}: {taken:.0f} us to take new contents, others {usual:.0f} us")
        for (workload, who), capture in self._captures.items():
            if who != name:
                continue
            calls = self._calls[workload]
            odd = [kernel for kernel, _, count in capture["nodes"] if count % calls]
            if odd:
                census.append(f"{workload}: not every call of a graph launches {odd[0][:80]}")
            if not any(not is_layout_node(kernel) for kernel, _, _ in capture["nodes"]):
                census.append(f"{workload}: a graph of it launches no kernel")
            if not capture["separate"]:
                memory.append(f"{workload}: two calls of a graph answer in the same memory")
        count = len(clocks)
        for probe, problems in (
            ("two_clocks", apart), ("late_work", late), ("graph_census", census), ("output_memory", memory),
        ):  # fmt: skip
            found.append(one_check(gate, probe, problems, count))
        return found

    @staticmethod
    def _comparison(gate: str, workload: str, results: list[tuple[Comparison, bool]]) -> dict[str, Any]:
        worst = max((found for found, _ in results), key=lambda found: (not found.ok, _ratio(found)))
        whole = sum(1 for _, is_whole in results if is_whole)
        text = f"{worst.rule}: {worst.detail} ({len(results)} timed answers, {whole} of them whole)"
        bad = sum(1 for found, _ in results if not found.ok)
        if bad:
            text = f"{bad} of {len(results)} timed answers are wrong: {worst.rule}: {worst.detail}"
        error = worst.error if worst.error == worst.error else None
        return {
            "gate": gate, "case": f"{workload}:timed", "probe": "compare",
            "status": "fail" if bad else "pass", "detail": text, "error": error, "limit": worst.limit,
            "seconds": 0.0,
        }  # fmt: skip


def _ratio(found: Comparison) -> float:
    return found.error / found.limit if found.limit else found.error
