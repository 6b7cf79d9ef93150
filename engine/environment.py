"""Which variables a process that the engine starts gets: no secret that it was not given by name."""

from __future__ import annotations

import os
import re
from collections.abc import Collection

_SECRET = re.compile(r"(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)", re.IGNORECASE)


def without_secrets(needed: Collection[str] = ()) -> dict[str, str]:
    """This process's environment without secrets but the `needed` ones, and without git's own variables."""
    return {
        name: value
        for name, value in os.environ.items()
        if (not _SECRET.search(name) or name in needed) and not name.startswith("GIT_")
    }
