"""The lock of a card keeps two measurements apart and names who holds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kernel_lab.engine.cardlock import CardLock, lock_folder
from kernel_lab.engine.errors import CardBusy

UUID = "GPU-5b6a1c22-0000-1111-2222-333344445555"
HOLD = """
import sys
from pathlib import Path
from kernel_lab.engine.cardlock import CardLock
CardLock(sys.argv[1], "lab night\\x1b[31m", Path(sys.argv[2])).acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_second_holder_is_refused_and_told_who_holds_the_card(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, UUID, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(CardBusy) as refusal:
            CardLock(UUID, "lab day", tmp_path).acquire()
        assert f"lab night[31m (process {holder.pid})" in str(refusal.value)
        with CardLock(UUID.replace("5b", "6c"), "lab day", tmp_path) as other:
            assert other.held
    finally:
        holder.kill()
        holder.wait()
    # A killed holder leaves its file, and no lock.
    with CardLock(UUID, "lab day", tmp_path) as lock:
        assert lock.holder() == {"pid": os.getpid(), "who": "lab day"}


def test_lock_can_be_taken_again_after_release(tmp_path: Path) -> None:
    lock = CardLock(UUID, "a", tmp_path)
    for _ in range(2):
        lock.acquire()
        lock.acquire()
        lock.release()
    assert not lock.held
    assert lock.holder() == {}


def test_card_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    assert CardLock("../../etc/passwd", "a", tmp_path).path.parent == tmp_path


def test_lock_does_not_follow_a_link(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("text")
    lock = CardLock(UUID, "a", tmp_path)
    lock.path.symlink_to(target)
    with pytest.raises(Exception, match="writable"):
        lock.acquire()
    assert target.read_text() == "text"


def test_lock_folder_is_shared_by_all_users() -> None:
    assert lock_folder().is_dir()
