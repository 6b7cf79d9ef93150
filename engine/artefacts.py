"""runs/N of a lab: what experiment N left, as files for editors and other tools.

    candidate.py   its newest text         proposed.py   as the proposer wrote it, where that differs
    report.json    launches, times, checks, reasons
    output.log     what the candidate and the compiler printed (untrusted)
    receipt.json   what `kernel-lab verify` needs to re-check it, once it was kept

All of it is in the ledger too; a file that cannot be written costs nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from typing import Any

from kernel_lab.engine import receipt
from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.events import GateFinished, Screened
from kernel_lab.engine.lab import Lab


def write(lab: Lab, experiment: int) -> None:
    """Write the files of one experiment, replacing older ones."""
    row = lab.ledger.experiment(experiment)
    if row is None:
        return
    report: dict[str, Any] = {
        "experiment": dataclasses.asdict(row),
        "trials": [dataclasses.asdict(trial) for trial in lab.ledger.trials(experiment)],
        "checks": [dataclasses.asdict(check) for check in lab.ledger.checks(experiment)],
        "launches": [],
        "gates": [],
    }
    output = ""
    for record in lab.ledger.records(experiment=experiment):
        match record.event:
            case Screened() as screened:
                report["launches"] = [dataclasses.asdict(launch) for launch in screened.launches]
                report["time_us"] = screened.time_us
            case GateFinished() as gate:
                report["gates"].append(dataclasses.asdict(gate))
                output += str(gate.facts.get("output", ""))
    texts = {"report.json": json.dumps(report, indent=2, sort_keys=True), "output.log": output}
    if row.source_sha:
        texts["candidate.py"] = lab.ledger.blob(row.source_sha).decode()
    if row.proposed_sha and row.proposed_sha != row.source_sha:
        texts["proposed.py"] = lab.ledger.blob(row.proposed_sha).decode()
    with contextlib.suppress(UsageError):  # it was never kept
        texts[receipt.NAME] = receipt.render(receipt.collect(lab.ledger, experiment))
    folder = lab.run_dir(experiment)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", errors="replace")
