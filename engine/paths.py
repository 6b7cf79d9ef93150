"""Where kernel-lab keeps things: the XDG base directories, or their counterpart on this system.

The environment's XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_STATE_HOME and XDG_CACHE_HOME override. No folder is
created here: whoever writes into one creates it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import platformdirs

APP = "kernel-lab"


def config_dir() -> Path:
    """Settings and the user's own profiles."""
    return _xdg("XDG_CONFIG_HOME") or platformdirs.user_config_path(APP, appauthor=False)


def data_dir() -> Path:
    """What must not be lost: labs."""
    return _xdg("XDG_DATA_HOME") or platformdirs.user_data_path(APP, appauthor=False)


def state_dir() -> Path:
    """What should outlive a restart: the last used lab, logs."""
    return _xdg("XDG_STATE_HOME") or platformdirs.user_state_path(APP, appauthor=False)


def cache_dir() -> Path:
    """What can be made again: compiled kernels, screens."""
    return _xdg("XDG_CACHE_HOME") or platformdirs.user_cache_path(APP, appauthor=False)


def labs_dir() -> Path:
    """Where labs go that are given no folder."""
    return data_dir() / "labs"


def user_profiles_dir(kind: Literal["gpus", "models"]) -> Path:
    """The user's own profiles, which override those that ship."""
    return config_dir() / "profiles" / kind


def _xdg(variable: str) -> Path | None:
    """The specification has relative paths ignored."""
    value = os.environ.get(variable, "")
    return Path(value) / APP if Path(value).is_absolute() else None
