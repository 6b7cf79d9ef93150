"""What the driver says about a card, without CUDA: through pynvml where it is installed, else nvidia-smi.

The host asks here and never makes a CUDA context of its own.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
from typing import Any

from wire import one_line

SMI_SECONDS = 20
_FIELDS = (
    "index", "uuid", "name", "driver_version", "clocks.sm", "clocks.max.sm", "power.draw", "power.limit",
    "temperature.gpu", "clocks_throttle_reasons.active", "memory.used", "memory.total",
)  # fmt: skip
_THROTTLES = {
    0x2: "application_clocks",
    0x4: "power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "thermal",
    0x40: "hardware_thermal",
    0x80: "power_brake",
    0x100: "display_clocks",
}
"""What can hold clocks down, by the driver's bits; idling (0x1) is left out."""


class NoCard(Exception):
    """There is no card that can be used; the text says why."""


def throttles(bits: int) -> list[str]:
    return [name for bit, name in _THROTTLES.items() if bits & bit]


def wanted_card(name: object) -> str:
    """The index or UUID of the card to use: the request's, else the first that the environment shows."""
    if name not in (None, ""):
        return str(name)
    return os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip() or "0"


class Nvml:
    """Readings of one card. Raises NoCard where there is none."""

    def __init__(self, name: object = None) -> None:
        wanted = wanted_card(name)
        self._nvml: Any = None
        with contextlib.suppress(ImportError):
            self._nvml = importlib.import_module("pynvml")
        if self._nvml is not None:
            try:
                self._nvml.nvmlInit()
                self._handle = self._find(wanted)
                return
            except self._nvml.NVMLError as failure:
                raise NoCard(f"the driver answers: {one_line(failure, 200)}") from None
        self._wanted = wanted
        self._smi()

    def _find(self, wanted: str) -> Any:
        if wanted.isdigit():
            return self._nvml.nvmlDeviceGetHandleByIndex(int(wanted))
        return self._nvml.nvmlDeviceGetHandleByUUID(wanted)

    def minor(self) -> int | None:
        """The number of its device file."""
        if self._nvml is None:
            return None
        with contextlib.suppress(self._nvml.NVMLError):
            return int(self._nvml.nvmlDeviceGetMinorNumber(self._handle))
        return None

    def read(self) -> dict[str, Any]:
        """What the card is, and how it is now. A value that the driver does not tell is None."""
        return self._smi() if self._nvml is None else self._ask()

    def now(self) -> dict[str, Any]:
        """The part of `read` that changes while it works: telemetry to stand beside a block of samples."""
        if self._nvml is None:
            found = self._smi()
            return {key: found[key] for key in ("clock_mhz", "power_w", "temperature_c", "throttle")}
        return self._telemetry()

    def _value(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self._nvml, name)(self._handle, *arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None

    def _telemetry(self) -> dict[str, Any]:
        nvml = self._nvml
        power = self._value("nvmlDeviceGetPowerUsage")
        bits = self._value("nvmlDeviceGetCurrentClocksThrottleReasons")
        return {
            "clock_mhz": self._value("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            "power_w": None if power is None else power / 1000,
            "temperature_c": self._value("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            "throttle": throttles(bits or 0),
            "process_count": self._process_count(),
        }

    def _process_count(self) -> int | None:
        running = self._value("nvmlDeviceGetComputeRunningProcesses")
        return None if running is None else len(running)

    def _ask(self) -> dict[str, Any]:
        nvml = self._nvml
        limit = self._value("nvmlDeviceGetEnforcedPowerLimit")
        memory = self._value("nvmlDeviceGetMemoryInfo")
        return {
            "name": _text(self._value("nvmlDeviceGetName")),
            "uuid": _text(self._value("nvmlDeviceGetUUID")),
            "index": self._value("nvmlDeviceGetIndex"),
            "driver": _text(nvml.nvmlSystemGetDriverVersion()),
            "max_clock_mhz": self._value("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
            "power_limit_w": None if limit is None else limit / 1000,
            "memory_used_bytes": None if memory is None else int(memory.used),
            "memory_total_bytes": None if memory is None else int(memory.total),
            "processes": self.processes(),
            **self._telemetry(),
        }

    def processes(self) -> list[int]:
        """Processes with a context on the card, as the driver numbers them."""
        if self._nvml is None:
            return self._smi_processes()
        running = self._value("nvmlDeviceGetComputeRunningProcesses") or []
        return sorted({int(one.pid) for one in running})

    def _smi(self) -> dict[str, Any]:
        line = _smi([f"--query-gpu={','.join(_FIELDS)}", "-i", self._wanted])
        values = [part.strip() for part in line.splitlines()[0].split(",")] if line.strip() else []
        if len(values) != len(_FIELDS):
            raise NoCard("nvidia-smi lists no card: look at `nvidia-smi`")
        by = dict(zip(_FIELDS, values, strict=True))
        bits = by["clocks_throttle_reasons.active"]
        mib = 1 << 20
        used, total = _number(by["memory.used"]), _number(by["memory.total"])
        return {
            "name": by["name"],
            "uuid": by["uuid"],
            "index": int(by["index"]),
            "driver": by["driver_version"],
            "max_clock_mhz": _number(by["clocks.max.sm"]),
            "power_limit_w": _number(by["power.limit"]),
            "memory_used_bytes": None if used is None else int(used * mib),
            "memory_total_bytes": None if total is None else int(total * mib),
            "processes": self._smi_processes(),
            "clock_mhz": _number(by["clocks.sm"]),
            "power_w": _number(by["power.draw"]),
            "temperature_c": _number(by["temperature.gpu"]),
            "throttle": throttles(int(bits, 16)) if bits.startswith("0x") else [],
        }

    def _smi_processes(self) -> list[int]:
        text = _smi(["--query-compute-apps=pid", "-i", self._wanted])
        return sorted({int(line) for line in text.split() if line.isdigit()})


def _smi(arguments: list[str]) -> str:
    command = ["nvidia-smi", *arguments, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SMI_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise NoCard(f"no NVIDIA driver answers: {one_line(failure, 120)}") from None
    if done.returncode:
        raise NoCard(f"nvidia-smi: {one_line(done.stdout + done.stderr, 200)}")
    return done.stdout


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _text(value: Any) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
