"""A receipt holds what is needed to judge a win again, and every changed byte of it is named."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from fake_device import FakeDevice
from kernel_lab.engine import receipt as receipts
from kernel_lab.engine.errors import UsageError
from kernel_lab.engine.lab import Lab
from kernel_lab.engine.ledger.records import Record, digest, dumps
from kernel_lab.engine.receipt import NAME, Receipt, collect, parse, read, render
from test_loop import TASK, Script, make_lab, run


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Seed #1, kept #2 and #4, discarded #3."""
    lab = make_lab(tmp_path_factory.mktemp("receipts") / "lab")
    run(lab, Script([{"SKIP": True}, {"DESCRIPTORS": True}, {"TWO_LOOPS": True}]), FakeDevice())
    return lab


@pytest.fixture(scope="module")
def data(lab: Lab) -> bytes:
    return (lab.run_dir(4) / NAME).read_bytes()


def fault_of(path: Path, data: bytes) -> tuple[int | None, str]:
    path.write_bytes(data)
    found, fault = read(path)
    assert found is None and fault is not None
    return fault.seq, fault.text


def test_a_keep_leaves_its_receipt_and_others_do_not(lab: Lab, data: bytes) -> None:
    assert [number for number in (1, 2, 3, 4) if (lab.run_dir(number) / NAME).exists()] == [1, 2, 4]
    assert data.decode() == render(collect(lab.ledger, 4))
    with pytest.raises(UsageError, match="#3 was never kept"):
        collect(lab.ledger, 3)


def test_a_receipt_tells_the_whole_story_and_reads_back_equal(lab: Lab, data: bytes) -> None:
    found = parse(data)
    assert found == collect(lab.ledger, 4)
    kinds = [record.type for record in found.records]
    assert kinds[:2] == ["lab_created", "experiment_finished"]  # the lab, and what #4 had to beat
    assert kinds[2] == "experiment_started" and kinds[-1] == "champion_changed"
    assert {"proposed", "screened", "trial_finished", "checked", "gate_finished", "speed_judged"} <= {*kinds}
    row, parent = lab.ledger.experiment(4), lab.ledger.experiment(2)
    assert row is not None and parent is not None
    assert {row.source_sha, row.proposed_sha, parent.source_sha} == {*found.texts}
    gates = {r.event.gate: r.event.facts for r in found.records if r.type == "gate_finished"}  # type: ignore[union-attr]
    assert len({gates[gate]["seed"] for gate in ("quick", "correctness", "integrity", "confirm")}) == 4
    assert all(" Sk" in shape for shape in gates["confirm"]["shapes"].values())


def test_every_changed_byte_is_noticed_and_its_event_named(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "receipt.json"
    lines = data.split(b"\n")
    at = 0
    for line in lines:
        begins = json.loads(line.rstrip(b",")).get("seq") if line.startswith(b'{"seq"') else None
        for offset in range(0, len(line) + 1, 151 if begins else 1499):
            place = at + offset
            if place >= len(data):
                break
            changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            try:
                path.write_bytes(changed)
                found, fault = read(path)
            except UsageError:
                assert at == 0  # the very name of the format
                continue
            assert found is None and fault is not None, (place, line[:80])
            if begins is not None and 8 < offset < len(line) - 2:
                assert fault.seq in (begins, begins + 1), (place, fault)
        at += len(line) + 1


def edited(data: bytes, seq: int, **changes: Any) -> bytes:
    """The receipt with fields of one event's body replaced, and nothing else."""
    lines = data.decode().split("\n")
    for number, line in enumerate(lines):
        if line.startswith(f'{{"seq":{seq},'):
            event = json.loads(line.rstrip(","))
            body = dumps({**event["body"], **changes})
            lines[number] = line[: line.index('"body":')] + f'"body":{body}}}' + "," * line.endswith(",")
    return "\n".join(lines).encode()


def test_the_field_that_was_changed_is_named(lab: Lab, data: bytes, tmp_path: Path) -> None:
    speed = next(record for record in parse(data).records if record.type == "speed_judged")
    better = json.loads(speed.body)["speed"]
    better["score"]["champion"] = 9.9
    seq, text = fault_of(tmp_path / "r", edited(data, speed.seq, speed=better))
    assert (seq, text) == (
        speed.seq,
        f"event {speed.seq} (speed_judged) is not what was written: field 'speed' was changed",
    )


def test_a_changed_candidate_is_named_by_the_event_that_names_it(data: bytes, tmp_path: Path) -> None:
    at = data.rindex(b"def attention")
    seq, text = fault_of(tmp_path / "r", data[:at] + b"dEf" + data[at + 3 :])
    assert seq is not None
    assert text.startswith("the text ") and text.endswith("names, was changed")


def test_a_receipt_that_was_cut_off_says_where(data: bytes, tmp_path: Path) -> None:
    whole = parse(data)
    middle = data.index(f'{{"seq":{whole.records[5].seq},'.encode()) + 30
    assert fault_of(tmp_path / "r", data[:middle]) == (
        whole.records[5].seq,
        f"event {whole.records[5].seq}: the file is cut off here",
    )
    for length in range(120, len(data) - 1, 1499):
        fault_of(tmp_path / "r", data[:length])


def rewritten(receipt: Receipt, records: list[Record]) -> bytes:
    return render(dataclasses.replace(receipt, records=tuple(records))).encode()


def test_a_removed_event_is_missed_and_a_moved_one_named(data: bytes, tmp_path: Path) -> None:
    whole = parse(data)
    records = list(whole.records)
    gone = records.pop(10)
    assert fault_of(tmp_path / "r", rewritten(whole, records)) == (gone.seq, f"event {gone.seq} is missing")
    records = list(whole.records)
    records[6], records[7] = records[7], records[6]
    assert fault_of(tmp_path / "r", rewritten(whole, records))[0] in (records[6].seq, records[7].seq)


def test_an_event_of_another_lab_does_not_follow(data: bytes, tmp_path: Path) -> None:
    whole = parse(data)
    old = whole.records[8]
    prev = "ab" * 32
    own = digest(prev, old.seq, old.time, old.type, old.body)
    records = [*whole.records[:8], dataclasses.replace(old, prev=prev, hash=own), *whole.records[9:]]
    seq, text = fault_of(tmp_path / "r", rewritten(whole, records))
    assert (seq, text) == (old.seq, f"event {old.seq} ({old.type}) does not follow event {old.seq - 1}")


def test_a_receipt_of_one_experiment_does_not_pass_for_another(data: bytes, tmp_path: Path) -> None:
    changed = data.replace(b'{"experiment":4,', b'{"experiment":2,', 1)
    assert "do not tell that #2 was kept" in fault_of(tmp_path / "r", changed)[1]


def forged(receipt: Receipt, at: int, **changes: Any) -> bytes:
    """A receipt whose hashes were made anew behind a change, as somebody who means it would."""
    records: list[Record] = []
    for number, record in enumerate(receipt.records):
        body = dumps({**json.loads(record.body), **changes}) if number == at else record.body
        linked = records and records[-1].seq == record.seq - 1
        prev = records[-1].hash if linked else record.prev
        own = digest(prev, record.seq, record.time, record.type, body)
        records.append(dataclasses.replace(record, body=body, prev=prev, hash=own))
    return rewritten(receipt, records)


@pytest.mark.parametrize(
    "changes",
    [
        {"experiment": "../../etc/passwd", "check": 7},
        {"experiment": [[]], "source_sha": {"a": 1}},
        {"speed": {"kind": 3, "score": "x", "ci": [], "per_workload": [[1]]}},
        {"reasons": "no list", "parent": {"x": 1}, "task": 5, "previous": "0"},
        {"gpu": None, "config": 1, "workloads": [], "tasks": 3},
    ],
)
def test_forged_fields_of_the_wrong_kind_never_crash(
    data: bytes, tmp_path: Path, changes: dict[str, Any]
) -> None:
    from kernel_lab.engine.judge.rejudge import win_of

    whole = parse(data)
    path = tmp_path / "r"
    kinds = {record.type: at for at, record in enumerate(whole.records)}
    for at in kinds.values():
        path.write_bytes(forged(whole, at, **changes))
        found, _ = read(path)
        if found is not None:
            try:
                win_of(found)
            except UsageError:
                continue


HEAD = b'{"experiment":4,"format":"kernel-lab receipt","version":1,\n"events":['


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"[" * 200_000,
        HEAD + b'{"seq":' + b"9" * 10_000 + b"}]}",
        HEAD + b'NaN],"texts":{}}',
        HEAD + b'],"texts":{}}',
        HEAD + b'{}],"texts":[]}',
        HEAD + b'null],"texts":{"../../x":"y"}}',
        HEAD + b"\xff\xfe",
        b'["receipt"]',
        b'{"format":"kernel-lab receipt","version":' + b"1" * 5000 + b"}",
        b'{"format":"kernel-lab receipt","version":2}',
        b'{"format":"kernel-lab receipt","version":1,"experiment":true,"events":[],"texts":{}}',
        (HEAD + b'{"a":' * 900 + b"1" + b"}" * 900 + b'],"texts":{}}'),
    ],
)
def test_hostile_receipts_are_faults_and_never_crash(data: bytes, tmp_path: Path) -> None:
    fault_of(tmp_path / "r", data)


def test_what_is_no_receipt_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = tmp_path / "package.json"
    foreign.write_text('{"name": "something"}')
    with pytest.raises(UsageError, match="neither a receipt nor a ledger"):
        read(foreign)
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "nothing")
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path)
    monkeypatch.setattr(receipts, "MAX_BYTES", 100)
    foreign.write_text("receipt" * 100)
    with pytest.raises(UsageError, match="larger than"):
        read(foreign)


def test_task_is_the_one_that_was_judged(data: bytes) -> None:
    from kernel_lab.engine.judge.rejudge import win_of

    win = win_of(parse(data))
    assert (win.experiment, win.task, win.gpu, win.status, win.kind) == (
        4,
        TASK,
        "rtx3060",
        "keep",
        "estimated",
    )
    assert win.gain == pytest.approx(1.1, rel=0.05)
    assert '"TWO_LOOPS": True' in win.source and '"TWO_LOOPS": True' not in win.rival
