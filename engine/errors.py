"""Every error that a person can meet: one line that says what is wrong, where, and what to do.

    LabError                    exit status 2 unless a subclass says otherwise
    ├── UsageError              a wrong word on the command line or in a settings file
    ├── ProfileError            a GPU or model profile that is missing or wrong
    ├── TaskError               a task folder that is missing or wrong
    ├── LabFolderError          a folder that is no lab, or may not be used as one
    │   ├── LabBusy             another engine owns the lab
    │   ├── LabReadOnly         the folder cannot be written
    │   └── LabNewer            the ledger was written by a newer kernel-lab
    ├── LedgerError             the ledger contradicts itself or cannot be written
    │   ├── ChainBroken         an event was changed after it was written
    │   └── DiskFull            no space left for the ledger
    ├── EnvironmentProblem      something this machine lacks (torch, triton, a terminal, a card)
    │   └── CardBusy            another process measures on the card
    ├── HostDied                the process beside the card ended in the middle of a job
    ├── ProposerError           a proposer cannot go on
    └── CandidateInvalid        a candidate file that is not one (exit status 1, verdict `invalid`)

The message of every error ends with the remedy. Messages may hold text of untrusted origin: show them
as plain text, never as markup.
"""

from __future__ import annotations


class LabError(Exception):
    """What is wrong, where, and what to do, in one line."""

    exit_status = 2

    def __str__(self) -> str:
        return " ".join(super().__str__().split())


class UsageError(LabError):
    """A wrong word on the command line or in a settings file."""


class ProfileError(LabError):
    """A GPU or model profile is missing or wrong."""


class TaskError(LabError):
    """A task folder is missing or wrong."""


class LabFolderError(LabError):
    """A folder is no lab, or may not be used as one."""


class LabBusy(LabFolderError):
    """Another engine owns the lab."""


class LabReadOnly(LabFolderError):
    """The lab's folder cannot be written."""


class LabNewer(LabFolderError):
    """The ledger was written by a newer version."""


class LedgerError(LabError):
    """The ledger contradicts itself or cannot be written."""


class ChainBroken(LedgerError):
    """An event was changed after it was written."""


class DiskFull(LedgerError):
    """There is no space left for the ledger."""


class EnvironmentProblem(LabError):
    """This machine lacks something that the request needs."""


class CardBusy(EnvironmentProblem):
    """Another process measures on the card."""


class HostDied(LabError):
    """The process beside the card ended in the middle of a job."""


class ProposerError(LabError):
    """A proposer cannot go on."""


class CandidateInvalid(LabError):
    """A candidate file is not one; the verdict is `invalid`."""

    exit_status = 1
