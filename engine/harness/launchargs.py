"""What a launch was given beside its tensors, and which code it runs: plain texts that can be compared.

The same call must launch the same kernels with the same settings wherever it runs: with contents and
without, in the interpreter and on a card. What differs tells one from the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

TEXT_LIMIT = 60


def described(
    fn: Any, names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, str]:
    """Argument name to text for what is no tensor; `code NAME` to the first line of each kernel of the file,
    and `global NAME` to the value of each plain global that a kernel reads. `fn` is the Python function."""
    found = {
        name: text
        for name, value in {**dict(zip(names, args, strict=False)), **kwargs}.items()
        if (text := _text(value)) is not None
    }
    scope = getattr(fn, "__globals__", {})
    codes = {name: code for name, value in list(scope.items()) if (code := _code(value)) is not None}
    for name, code in codes.items():
        found[f"code {name}"] = str(code.co_firstlineno)
    for name in {name for code in (fn.__code__, *codes.values()) for name in _names(code)}:
        if name in scope and name not in codes and (text := _plain(scope[name])) is not None:
            found[f"global {name}"] = text
    return found


def _code(value: Any) -> CodeType | None:
    """The code of a kernel, below what wraps it."""
    for _ in range(8):
        value = getattr(value, "fn", None)
        code = getattr(value, "__code__", None)
        if isinstance(code, CodeType):
            return code
        if value is None:
            return None
    return None


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _text(value: Any) -> str | None:
    """None for a tensor, whose place differs from call to call."""
    if hasattr(value, "data_ptr"):
        return None
    if isinstance(value, tuple | list):
        return ",".join(text or "tensor" for text in map(_text, value))[:TEXT_LIMIT]
    if hasattr(value, "block_shape"):
        return f"descriptor {list(value.block_shape)}"[:TEXT_LIMIT]
    plain = _plain(value)
    return type(value).__name__ if plain is None else plain


def _plain(value: Any) -> str | None:
    """A number, text or type as text; None for anything else."""
    inner = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if inner is None or isinstance(inner, bool | int | float | str) or type(inner).__name__ == "dtype":
        return str(inner)[:TEXT_LIMIT]
    return None
