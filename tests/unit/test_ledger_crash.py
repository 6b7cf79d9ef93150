"""Killed at any moment, with other processes reading and sending, and on a disk that is full."""

from __future__ import annotations

import multiprocessing
import multiprocessing.process
import multiprocessing.synchronize
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kernel_lab.engine import commands as c
from kernel_lab.engine import events as e
from kernel_lab.engine.facts import Prediction
from kernel_lab.engine.ledger.records import sha256
from kernel_lab.engine.ledger.store import Ledger
from ledger_data import created


def write_for_ever(path: Path, opened: multiprocessing.synchronize.Event) -> None:
    """An engine: experiments one after the other, each in one append with what people said meanwhile."""
    ledger = Ledger.open(path)
    opened.set()
    while True:
        number = ledger.last_experiment() + 1
        text = os.urandom(3000)
        pending = [(p.id, p.by, p.command) for p in ledger.pending_commands()]
        ledger.set_now({"experiment": number})
        ledger.append(
            [
                e.ExperimentStarted(number, "gqa_decode", None, "search"),
                e.Proposed(number, sha256(text), "d", "h", Prediction(None, None), "l"),
                *[
                    e.IdeaSaid(n, say.text, "next", None, by)
                    for n, by, say in pending
                    if isinstance(say, c.Say)
                ],
                e.ExperimentFinished(number, "discard", (), sha256(text)),
            ],
            blobs=[text],
            obeyed=[(n, f"idea {n}") for n, _, _ in pending],
        )
        time.sleep(0.002)


def start_writer(path: Path) -> multiprocessing.process.BaseProcess:
    forks = multiprocessing.get_context("fork")
    opened = forks.Event()
    writer = forks.Process(target=write_for_ever, args=(path, opened), daemon=True)
    writer.start()
    assert opened.wait(30)
    return writer


def test_killed_30_times_while_writing_nothing_is_lost_halved_or_doubled(tmp_path: Path) -> None:
    path = tmp_path / "lab.db"
    Ledger.create(path, [created()]).close()
    chance = random.Random(7)
    sent: list[int] = []
    for round_ in range(30):
        writer = start_writer(path)
        with Ledger.open(path) as person:
            sent.append(person.send(c.Say(f"idea of round {round_}"), "ann"))
        time.sleep(chance.uniform(0.0, 0.08))
        writer.kill()
        writer.join()
        with Ledger.open(path) as ledger:
            seen = ledger.verify()
            types = [record.type for record in ledger.records()][1:]
            assert types.count("experiment_started") == types.count("experiment_finished")
            assert types.count("proposed") == ledger.counts().get("discard", 0) == ledger.last_experiment()
            waiting = {pending.id for pending in ledger.pending_commands()}
            said = [record.event.idea for record in ledger.records() if isinstance(record.event, e.IdeaSaid)]
            assert sorted({*said, *waiting}) == sent
            assert len(said) + len(waiting) == len(sent)
            assert seen == ledger.last_seq()
    writer = start_writer(path)
    with Ledger.open(path, readonly=True) as ledger:
        deadline = time.monotonic() + 20
        while ledger.pending_commands() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert [ledger.command_result(n) for n in sent] == [f"idea {n}" for n in sent]
    writer.kill()
    writer.join()
    with Ledger.open(path) as ledger:
        rows = ledger.experiments()
        ledger.rebuild()
        assert ledger.experiments() == rows


def test_a_second_terminal_reads_and_sends_while_the_engine_writes(tmp_path: Path) -> None:
    path = tmp_path / "lab.db"
    Ledger.create(path, [created()]).close()
    writer = start_writer(path)
    try:
        with Ledger.open(path, readonly=True) as reader:
            seen, numbers, slowest = 0, [], 0.0
            begin = time.monotonic()
            while time.monotonic() - begin < 1.5:
                asked = time.monotonic()
                records = reader.records(after=seen)
                slowest = max(slowest, time.monotonic() - asked)
                numbers += [record.seq for record in records]
                seen = numbers[-1] if numbers else 0
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(numbers) > 10
            assert slowest < 2.0
            with Ledger.open(path) as person:
                command = person.send(c.Say("from the second terminal"), "bob")
            deadline = time.monotonic() + 10
            while reader.command_result(command) is None and time.monotonic() < deadline:
                time.sleep(0.02)
            assert reader.command_result(command) == f"idea {command}"
    finally:
        writer.kill()
        writer.join()


def test_a_reader_in_the_middle_of_a_question_does_not_hold_the_writer_up(tmp_path: Path) -> None:
    path = tmp_path / "lab.db"
    with Ledger.create(path, [created()]) as ledger, Ledger.open(path, readonly=True) as reader:
        reader.connection.execute("BEGIN")
        before = reader.last_seq()
        begin = time.monotonic()
        for _ in range(20):
            ledger.append([e.Paused("x")])
        assert time.monotonic() - begin < 5
        assert reader.last_seq() == before
        reader.connection.execute("COMMIT")
        assert reader.last_seq() == before + 20


FILL = """
import os, sys
from pathlib import Path
from kernel_lab.engine import events as e
from kernel_lab.engine.errors import DiskFull
from kernel_lab.engine.ledger.store import Ledger

path = Path(sys.argv[1]) / "lab.db"
ledger = Ledger.create(path)
told = 0
for attempt in range(300):
    try:
        ledger.append([e.Notice("info", "x")], blobs=[os.urandom(20_000)])
    except DiskFull as error:
        assert "\\n" not in str(error)
        told += 1
assert told > 100, told
held = ledger.last_seq()
assert held > 5 and ledger.verify() == held
ledger.close()
(path.parent / "ballast").unlink()
with Ledger.open(path) as again:
    assert again.verify() == held
    again.append([e.Resumed("x")])
print("held", held)
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_a_disk_that_is_really_full_costs_only_what_was_not_written(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = (
        f"mount -t tmpfs -o size=3m tmpfs {folder} && head -c 800000 /dev/zero > {folder}/ballast && "
        f'exec {sys.executable} -c "$FILL" {folder}'
    )
    ran = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount],
        env={**os.environ, "FILL": FILL},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if "mount:" in ran.stderr or "unshare:" in ran.stderr:
        pytest.skip("this system lets nobody mount a small disk")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("held ")
