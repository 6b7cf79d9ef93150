"""The git view of a lab: `champion/<task>` for each line of kept candidates, `refs/experiments/N` else.

Everything in it follows from the ledger, so that it may be deleted at any time: the next `sync` writes the
same commits again. The user's own git settings, hooks and keys have no part in it, and refs that are not
ours stay as they are.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kernel_lab.engine.ledger import commits
from kernel_lab.engine.ledger.store import EventReader

if TYPE_CHECKING:
    import git

WRITTEN = "refs/kernel-lab/written"
"""Points at the newest commit whose objects, and those of all commits before it, were written."""

OURS = ("refs/heads/champion/", "refs/experiments/")
LOOSE_REFS = 400
"""More refs than this in files of their own are packed into one."""

_DELETED = "0" * 40

_checked: set[Path] = set()
"""Repositories that this process has examined object by object."""


class _Damaged(Exception):
    """The repository lacks something that it should hold."""


def sync(ledger: EventReader, repo_dir: Path) -> str | None:
    """Bring the repository up to date, making or mending it first if it is missing or damaged.

    Never fails the caller: returns one line with the remedy if git could not do it; what is missing then is
    made up for by a later call. What was damaged is moved to `<repo_dir>.damaged`.
    """
    try:
        import git
    except ImportError:
        return (
            "git is not installed, so that the lab has no repo/: install git, it is then made from the ledger"
        )
    try:
        try:
            if repo_dir.exists():
                _update(ledger, repo_dir)
                return None
        except (_Damaged, git.GitCommandError):
            aside = repo_dir.with_name(f"{repo_dir.name}.damaged")
            shutil.rmtree(aside, ignore_errors=True)
            repo_dir.rename(aside)
        _create(ledger, repo_dir)
        _update(ledger, repo_dir)
    except (_Damaged, git.GitError, OSError) as problem:
        why = commits.one_line(str(problem), 300)
        return f"{repo_dir} could not be brought up to date ({why}): delete it, it is then made again"
    return None


def commit_of(ledger: EventReader, experiment: int) -> str | None:
    """Id of the commit under which an experiment's candidate is shown; None if it has no candidate."""
    row = ledger.experiment(experiment)
    return None if row is None else row.commit


def _create(ledger: EventReader, repo_dir: Path) -> None:
    """An empty bare repository, laid out here: `git init` would heed the user's templates and environment."""
    tasks = ledger.view().tasks
    branch = _branch(tasks[0]) if tasks else "main"
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (repo_dir / folder).mkdir(parents=True)
    (repo_dir / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
    (repo_dir / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
    _checked.add(repo_dir)


def _update(ledger: EventReader, repo_dir: Path) -> None:
    client = _git(repo_dir)
    if repo_dir not in _checked:
        client.fsck("--no-dangling", "--no-progress")
        client.gc("--auto", "--quiet")
        _checked.add(repo_dir)
    there = _refs(client)
    written = _position(ledger, there.pop(WRITTEN, None))
    newest = _write_commits(client, ledger, written)
    wanted = _wanted(ledger)
    changes = [f"update {ref} {commit}\n" for ref, commit in wanted.items() if there.get(ref) != commit]
    changes += [f"delete {ref}\n" for ref in there if ref not in wanted]
    if newest is not None:
        changes.append(f"update {WRITTEN} {newest}\n")
    if changes:
        with _input("".join(changes).encode()) as stream:
            client.update_ref("--stdin", istream=stream)
    if sum(1 for _ in (repo_dir / "refs" / "experiments").glob("*")) > LOOSE_REFS:
        client.pack_refs("--all")


def _refs(client: git.Git) -> dict[str, str]:
    """Our refs as they stand in the repository."""
    listed = str(client.for_each_ref("--format=%(refname) %(objectname)", *OURS, WRITTEN))
    return dict(line.split(" ") for line in listed.splitlines())


def _wanted(ledger: EventReader) -> dict[str, str]:
    """Our refs as they follow from the ledger."""
    lines = ledger.fetch(
        "SELECT task, commit_id FROM champions WHERE commit_id IS NOT NULL ORDER BY task, position"
    )
    others = ledger.fetch(
        "SELECT id, own_commit FROM experiments WHERE own_commit IS NOT NULL "
        "AND id NOT IN (SELECT experiment FROM champions)"
    )
    wanted = {f"refs/heads/{_branch(task)}": commit for task, commit in lines}
    return wanted | {f"refs/experiments/{number}": commit for number, commit in others}


def _position(ledger: EventReader, commit: str | None) -> int:
    rows = ledger.fetch("SELECT position FROM commits WHERE id = ?", (commit,))
    return int(rows[0][0]) if rows else 0


def _write_commits(client: git.Git, ledger: EventReader, after: int) -> str | None:
    """Write the objects of all commits behind a position; the id of the last one, None without any."""
    rows = ledger.fetch(
        "SELECT id, source_sha, result, object FROM commits WHERE position > ? ORDER BY position", (after,)
    )
    if not rows:
        return None
    with tempfile.TemporaryFile() as stream:
        marks: dict[str, int] = {}
        for commit, source_sha, result, text in rows:
            for chunk in _fast_import(ledger.blob(source_sha), result.encode(), text, marks):
                stream.write(chunk)
            marks[commit] = len(marks) + 1
        stream.seek(0)
        client.fast_import("--quiet", "--force", istream=stream)
    # Names are computed, not read back: this proves that git agrees.
    with _input("".join(f"{row[0]}\n" for row in rows).encode()) as stream:
        answer = str(client.cat_file("--batch-check=%(objecttype)", istream=stream))
    if answer.split() != ["commit"] * len(rows):
        raise _Damaged("git wrote other commits than the ledger names")
    return str(rows[-1][0])


def _fast_import(source: bytes, result: bytes, text: str, marks: dict[str, int]) -> Iterator[bytes]:
    """One commit as `git fast-import` reads it, from the text of the commit object.

    `marks`: numbers of the commits written before in the same stream, which git knows by nothing else.
    """
    header, _, message = text.partition("\n\n")
    fields = [line.partition(" ") for line in header.splitlines()]
    branch = "refs/kernel-lab/importing"
    yield f"reset {branch}\n\ncommit {branch}\nmark :{len(marks) + 1}\n".encode()
    for name, _, value in fields:
        if name in ("author", "committer"):
            yield f"{name} {value}\n".encode()
    yield _data(message.encode())
    for name, _, value in fields:
        if name == "parent":
            yield f"from {f':{marks[value]}' if value in marks else value}\n".encode()
    yield b"deleteall\n"
    for path, content in (("candidate.py", source), ("result.json", result)):
        yield f"M 100644 inline {path}\n".encode() + _data(content)
    yield f"reset {branch}\nfrom {_DELETED}\n\n".encode()


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def _branch(task: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", task).strip("-") or "task"
    return f"champion/{name}"


def _git(repo_dir: Path) -> git.Git:
    """Git for this repository alone, blind to the user's settings and to a repository around it."""
    import git

    client = git.Git(str(repo_dir))
    client.update_environment(
        GIT_DIR=str(repo_dir),
        GIT_COMMON_DIR=str(repo_dir),
        GIT_OBJECT_DIRECTORY=str(repo_dir / "objects"),
        GIT_ALTERNATE_OBJECT_DIRECTORIES="",
        GIT_CONFIG_GLOBAL="/dev/null",
        GIT_CONFIG_NOSYSTEM="1",
        GIT_CONFIG_PARAMETERS="",
        GIT_CONFIG_COUNT="3",
        GIT_CONFIG_KEY_0="safe.directory",
        GIT_CONFIG_VALUE_0="*",
        GIT_CONFIG_KEY_1="core.hooksPath",
        GIT_CONFIG_VALUE_1="/dev/null",
        GIT_CONFIG_KEY_2="gc.autoDetach",
        GIT_CONFIG_VALUE_2="false",
        GIT_TERMINAL_PROMPT="0",
        LC_ALL="C",
    )
    return client


@contextlib.contextmanager
def _input(content: bytes) -> Iterator[IO[bytes]]:
    """What a git command reads: a file, because nothing drains a pipe's other end meanwhile."""
    with tempfile.TemporaryFile() as stream:
        stream.write(content)
        stream.seek(0)
        yield stream
