"""Read disassembled machine code: instructions with their pipes and registers, and the loops.

Accepts the text of `nvdisasm` (labels) and of `cuobjdump --dump-sass` (addresses). A loop is a branch back
to an earlier instruction; spins on a barrier, traps and code after the kernel's end are none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from .arch import Arch

_LINE = re.compile(
    r"^(\.L_\w+):|/\*([0-9a-f]{4,6})\*/\s+(?:@(!?U?P[0-9T])\s+)?([A-Z][A-Za-z0-9_.]*)\s*([^;\n]*);",
    re.MULTILINE,
)
_REGISTER = re.compile(r"(?<![\w.])(UR|UP|R|P)(\d+)(\.64)?")
_TARGET = re.compile(r"(\.L_\w+)|(?<![\w\[])0x([0-9a-f]+)\b")
_MMA = re.compile(r"^(HMMA|IMMA|QMMA|OMMA|DMMA)\S*?\.(1688|16816|16832|16864|8816|884)")
_WGMMA = re.compile(r"^[HQI]GMMA(?:\.SP)?\.(\d+)x(\d+)x(\d+)")
_SHAPES = {"1688": 1024, "16816": 2048, "16832": 4096, "16864": 8192, "8816": 1024, "884": 256}

# Pipes of one scheduler, as small integers for the simulation.
FMA, ALU, MUFU, MIO, TENSOR, UNIFORM, CONTROL, FREE = range(8)
PIPES = ("fma", "alu", "exp", "smem", "tensor", "uniform", "control", "free")

# What an instruction does besides taking its pipe.
PLAIN, LOAD, ASYNC_LOAD, COMMIT, WAIT_GROUP, BARRIER, WGMMA, WAIT_WGMMA, TMA, WAIT_TMA, LOCAL = range(11)

_ALU_NAMES = (
    "IADD3 IADD LOP3 LOP SHF SHL SHR ISETP FSETP SEL FSEL FMNMX FMNMX3 IMNMX VIMNMX VIMNMX3 PRMT PLOP3 LEA "
    "P2R R2P BFE BMSK SGXT FLO POPC BREV VOTE VOTEU IABS MOV MOV32I HMNMX2 HSETP2 HSET2 DSETP CSEL VABSDIFF "
    "I2I IADD2 R2B FCHK FSWZADD FSET ISET PSETP VIADD VIADDMNMX LEPC CS2R"
)
_ALU = frozenset(_ALU_NAMES.split())
_FMA_NAMES = "FFMA FADD FMUL FFMA2 FADD2 FMUL2 FADD32I FMUL32I FFMA32I HFMA2 HADD2 HMUL2 DFMA DADD DMUL"
_FMA = frozenset(_FMA_NAMES.split())
_MIO_NAMES = "LDS STS LDSM STSM SHFL ATOMS LDL STL LDG STG LD ST LDGSTS RED ATOM ATOMG REDUX MOVM MATCH QSPC"
_MIO = frozenset(_MIO_NAMES.split())
_NO_RESULT_NAMES = "STG STS ST STL RED STSM LDGSTS BAR BRA EXIT CALL WARPGROUP STTM SYNCS UTMALDG UTMASTG"
_NO_RESULT = frozenset(_NO_RESULT_NAMES.split())
_BASE = {"R": 0, "UR": 256, "P": 512, "UP": 520}
_SHARED_LEFT = re.compile(r"R\d+, gdesc")
_GROUPS = re.compile(r"(?:SB\d|gsb0), 0x([0-9a-f]+)")
MAX_INSTRUCTIONS = 40_000


@dataclass(slots=True)
class Instr:
    """One warp instruction: pipe and cycles on it, latency of its result, registers read and written."""

    op: str
    pipe: int = FREE
    cycles: float = 0.0
    latency: int = 4
    kind: int = PLAIN
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    flops: float = 0.0
    """Tensor operations of one warp (a quarter of a warpgroup's)."""
    bytes: float = 0.0
    """Bytes that one warp moves from or to global memory."""
    count: int = 0
    """Groups that may stay open behind a wait."""
    hold: int = 1
    """Cycles until the warp's next instruction may issue."""


@dataclass(slots=True)
class Loop:
    """Instructions `first` to `last` (inclusive), with the loops inside."""

    first: int
    last: int
    inner: list[Loop] = field(default_factory=list)


@dataclass(slots=True)
class Code:
    instrs: list[Instr]
    loops: list[Loop]
    groups: int = 1
    """Copies of the tensor loop that run side by side in a warp-specialised kernel."""


def parse(text: str, arch: Arch) -> Code:
    """The kernel's code up to its end. Unreadable text gives an empty `Code`."""
    instrs: list[Instr] = []
    labels: dict[str, int] = {}
    addresses: dict[int, int] = {}
    branches: list[tuple[int, str | int, bool]] = []
    for found in _LINE.finditer(text):
        label, address, predicate, op, operands = found.groups()
        if label:
            labels[label] = len(instrs)
            continue
        addresses[int(address, 16)] = len(instrs)
        if op.startswith(("BRA", "JMP", "CALL")):
            target = _TARGET.search(operands)
            if target and op[0] != "C":
                where: str | int = target.group(1) or int(target.group(2), 16)
                branches.append((len(instrs), where, predicate is not None))
        instrs.append(decode(op, operands, predicate, arch))
        if len(instrs) >= MAX_INSTRUCTIONS:
            break
    end = _end(instrs)
    spans: dict[int, int] = {}
    for at, where, _ in branches:
        start = labels.get(where) if isinstance(where, str) else addresses.get(where)
        if start is not None and start < at < end and not _spin(instrs, start, at):
            spans[start] = max(at, spans.get(start, 0))
    return Code(instrs[:end], _nest(sorted(spans.items())))


def _end(instrs: list[Instr]) -> int:
    """Where the kernel's code ends: behind it stand traps, slow paths and waits moved out of line."""
    last = len(instrs)
    work = [
        i
        for i, x in enumerate(instrs)
        if x.pipe in (TENSOR, MUFU) or x.op.startswith(("STG", "UTMASTG", "RED", "ST."))
    ]
    after = work[-1] if work else 0
    for i in range(after, len(instrs)):
        if instrs[i].op.startswith("EXIT"):
            return i + 1
    return last


def _spin(instrs: list[Instr], start: int, at: int) -> bool:
    """A wait that polls: short, and nothing in it that computes."""
    body = instrs[start : at + 1]
    if any(x.pipe == TENSOR for x in body):
        return False
    polls = any(x.op.startswith(("SYNCS", "USETMAXREG", "UTCATOMSWS", "NANOSLEEP", "CCTL")) for x in body)
    return (polls and len(body) < 24) or len(body) <= 1


def _nest(spans: list[tuple[int, int]]) -> list[Loop]:
    top: list[Loop] = []
    stack: list[Loop] = []
    for first, last in spans:
        while stack and first > stack[-1].last:
            stack.pop()
        if stack and last > stack[-1].last:  # overlaps without nesting: the code is laid out oddly
            last = stack[-1].last
        loop = Loop(first, last)
        (stack[-1].inner if stack else top).append(loop)
        stack.append(loop)
    return top


def decode(op: str, operands: str, predicate: str | None, arch: Arch) -> Instr:
    """Pipe, cost, latency and registers of one instruction."""
    if predicate in ("!PT", "!UPT"):
        return Instr(op)
    model = _template(op, arch)
    reads, writes = _registers(model, operands)
    if predicate is not None:
        reads.append(_BASE["UP" if "U" in predicate else "P"] + (ord(predicate[-1]) & 7))
    kind, count = model.kind, model.count
    cycles = model.cycles
    if kind == WGMMA:
        count = int("gsb0" in operands)
        # Fetching the left operand from shared memory (and the right one's rows) bounds narrow tiles.
        cycles = 32.0 if _SHARED_LEFT.match(operands) else 16.0
    elif kind in (WAIT_GROUP, WAIT_WGMMA):
        groups = _GROUPS.search(operands)
        count = int(groups.group(1), 16) if groups else 0
        if kind == WAIT_GROUP and groups is None:
            kind = PLAIN
    elif kind == BARRIER and "," in operands:
        kind = PLAIN  # some warps only: those of one warpgroup, which stay together anyway
    return Instr(
        op,
        model.pipe,
        cycles,
        model.latency,
        kind,
        tuple(reads),
        tuple(writes),
        model.flops,
        model.bytes,
        count,
        model.hold,
    )


@dataclass(slots=True)
class _Template:
    """What the opcode alone says. `sizes`: registers of destination and sources."""

    pipe: int = FREE
    cycles: float = 0.0
    latency: int = 4
    kind: int = PLAIN
    flops: float = 0.0
    bytes: float = 0.0
    count: int = 0
    hold: int = 1
    sizes: tuple[int, ...] = (1,)
    stores: bool = False


@lru_cache(maxsize=4096)
def _template(op: str, arch: Arch) -> _Template:
    base = op.split(".", 1)[0]
    out = _Template(latency=arch.lat_alu, sizes=_sizes(op, base), stores=base in _NO_RESULT)
    mma = _MMA.match(op)
    wgmma = _WGMMA.match(op)
    if mma:
        out.pipe, out.flops, out.latency = TENSOR, 2.0 * _SHAPES[mma.group(2)], arch.lat_mma
    elif wgmma:
        m, n, k = (int(g) for g in wgmma.groups())
        out.pipe, out.flops, out.kind, out.latency = TENSOR, 2.0 * m * n * k / 4, WGMMA, arch.lat_wgmma
    elif op.startswith("UTC") and "MMA" in op:
        out.pipe, out.kind, out.flops, out.latency = TENSOR, WGMMA, -1.0, arch.lat_wgmma
    elif base in _FMA:
        out.pipe, out.cycles = FMA, arch.fma * (16 if base[0] == "D" else 1)
    elif base in ("IMAD", "IDP"):
        out.pipe = FMA
        out.cycles = arch.fma if ".MOV" in op else arch.imad * (2 if ".WIDE" in op or ".HI" in op else 1)
    elif base in _ALU:
        out.pipe, out.cycles = ALU, arch.alu * (0.5 if base == "MOV" else 1)
        if "SETP" in base:
            out.latency = arch.lat_pred
    elif base in ("F2FP", "F2F", "F2I", "I2F", "I2FP", "FRND"):
        slow = not base.endswith("FP")
        out.pipe, out.cycles = (MUFU, arch.mufu) if slow else (ALU, arch.convert)
        out.latency = arch.lat_mufu if slow else arch.lat_alu
    elif base == "MUFU":
        out.pipe, out.cycles, out.latency = MUFU, arch.mufu, arch.lat_mufu
    elif base in _MIO:
        _memory(out, op, base, arch)
    elif base in ("LDTM", "STTM"):
        out.pipe, out.cycles, out.latency = MIO, 2.0 * out.sizes[0], 2 * arch.lat_smem
    else:
        _control(out, op, base, arch)
    return out


def _control(out: _Template, op: str, base: str, arch: Arch) -> None:
    out.pipe, out.cycles, out.latency = CONTROL, 1, 6
    if base == "BAR":
        out.cycles, out.latency, out.hold = 2, arch.lat_bar, arch.lat_bar
        out.kind = BARRIER if op.startswith(("BAR.SYNC", "BAR.RED")) else PLAIN
    elif base == "LDGDEPBAR":
        out.kind = COMMIT
    elif base == "DEPBAR":
        out.kind, out.pipe, out.cycles = WAIT_GROUP, FREE, 0
    elif op.startswith("WARPGROUP.DEPBAR"):
        out.kind, out.pipe, out.cycles = WAIT_WGMMA, FREE, 0
    elif base in ("UTMALDG", "UBLKCP"):
        out.kind, out.pipe, out.cycles, out.latency = TMA, UNIFORM, 4, arch.lat_l2 + arch.lat_tma
    elif op.startswith("SYNCS.PHASECHK"):
        out.kind, out.cycles, out.latency = WAIT_TMA, 4, 16
    elif base in ("LDC", "S2R", "S2UR", "R2UR", "ULDC", "LDCU"):
        out.cycles, out.latency = 2, 24 if base in ("LDC", "S2R", "S2UR") else 11
    elif base == "NOP":
        out.pipe, out.cycles = FREE, 0
    elif base in ("MEMBAR", "FENCE"):
        out.cycles, out.hold = 2, arch.lat_fence if base == "MEMBAR" else arch.lat_fence // 2
    elif base in ("BRA", "CALL"):
        out.cycles = 2
    elif base.startswith("U"):
        out.pipe, out.cycles, out.latency = UNIFORM, 2, 8


def _memory(out: _Template, op: str, base: str, arch: Arch) -> None:
    """Loads, stores and shuffles: all go through one queue that the schedulers share."""
    width = 16 if ".128" in op else 8 if ".64" in op else 4
    if ".U8" in op or ".S8" in op:
        width = 1
    elif ".U16" in op or ".S16" in op:
        width = 2
    out.pipe = MIO
    wavefronts = max(1.0, width / 4)
    if base in ("LDSM", "STSM"):
        wavefronts = float(max(out.sizes))
    out.cycles = wavefronts * 512.0 / arch.smem_bytes_clk  # the SM's queue seen from one of four schedulers
    if base in ("SHFL", "REDUX", "MATCH", "MOVM"):
        out.cycles, out.latency = 4.0, arch.lat_shfl
        return
    out.latency = arch.lat_smem
    if base in ("LDG", "LD", "LDGSTS", "ATOM", "ATOMG"):
        out.kind = ASYNC_LOAD if base == "LDGSTS" else LOAD
        out.bytes = 32.0 * width
        out.latency = arch.lat_l2 * (2 if base.startswith("ATOM") else 1)
    elif base in ("STG", "ST", "RED"):
        out.bytes = 32.0 * width
    elif base in ("LDL", "STL"):
        out.kind, out.bytes, out.latency = LOCAL, 32.0 * width, arch.lat_smem + 8


def _sizes(op: str, base: str) -> tuple[int, ...]:
    """Registers of each register operand, destination first; the last stands for all further ones."""
    if base in ("HMMA", "QMMA", "OMMA", "IMMA"):
        accumulators = 2 if ".F16" in op and ".F32" not in op else 4
        half = "1688" in op or "8816" in op
        return (accumulators, 2 if half else 4, 1 if half else 2, accumulators)
    if base in ("HGMMA", "QGMMA", "IGMMA"):
        return (1, 4, 1)
    if base in ("LDSM", "STSM"):
        matrices = re.search(r"M88\.(\d)", op)
        return (int(matrices.group(1)) if matrices else 1, 1)
    if base in ("LDTM", "STTM"):
        lanes = re.search(r"\.x(\d+)", op)
        return (int(lanes.group(1)) if lanes else 16, 1)
    wide = (
        4
        if ".128" in op
        else 2
        if ".64" in op or ".WIDE" in op or base in ("CS2R", "DADD", "DMUL", "DFMA")
        else 1
    )
    return (1, wide) if base in _NO_RESULT else (wide, 1)


def _registers(model: _Template, operands: str) -> tuple[list[int], list[int]]:
    """Numbers of the registers read and written; a wide operand names each of its registers."""
    reads: list[int] = []
    writes: list[int] = []
    sizes, last = model.sizes, len(model.sizes) - 1
    place = 0
    open_ = not model.stores
    for kind, digits, pair in _REGISTER.findall(operands):
        first = _BASE[kind] + int(digits)
        if kind[-1] == "P":
            if open_ and len(writes) + len(reads) <= 1 and not (reads and place > 1):
                writes.append(first)
            else:
                reads.append(first)
            continue
        if open_ and place == 0:
            writes.extend(range(first, first + sizes[0]))
        else:
            size = sizes[place if place < last else last]
            reads.extend(range(first, first + (2 if pair and size < 2 else size)))
        place += 1
    return reads, writes
