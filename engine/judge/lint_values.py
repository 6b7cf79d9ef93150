"""Marks of expressions and calls in host code, and the findings that they lead to."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from kernel_lab.engine.judge.lint_marks import (
    CARRIED,
    NONE,
    TENSORS,
    Knowledge,
    Marks,
    contained,
    element,
    union,
)
from kernel_lab.engine.judge.lint_module import FunctionNode
from kernel_lab.engine.judge.lint_names import (
    ALLOCATES,
    COPIES,
    DESCRIPTORS,
    METADATA,
    MUTATES,
    TORCH_ALLOCATE,
    TORCH_FACTS,
    TORCH_VIEW,
    TRITON_FACTS,
    VIEW_LISTS,
    VIEWS,
    attribute_rule,
    builtin_rule,
)
from kernel_lab.engine.judge.lint_rules import Report, shown

LAUNCH_OPTIONS = {
    "warmup",
    "grid",
    "stream",
    "device",
    "pre_hook",
    "launch_metadata",
    "profile",
    "instrumentation_mode",
}
_PASSES_ON = {"tuple", "list", "zip", "enumerate", "reversed", "dict"}
_ASKS = {"isinstance", "hasattr", "len"}
_COMPUTES = {"sum", "min", "max", "abs", "pow", "divmod", "round"}
_READS_ITEMS = {"sum", "min", "max", "sorted", "set", "frozenset", "any", "all", "str"}
_COPYING_METHODS = {"clone", "contiguous", "to", "float", "half", "bfloat16", "type_as"}
_COPYING_FUNCTIONS = {"torch.clone", "torch.cat", "torch.stack"}


class Values:
    """Evaluates expressions of one function, seen with the functions around it (`chain`, innermost first)."""

    def __init__(self, known: Knowledge, report: Report, chain: tuple[FunctionNode, ...]) -> None:
        self.known = known
        self.module = known.module
        self.report = report
        self.chain = chain
        self.node = chain[0]
        self.globals = {
            name for inner in ast.walk(self.node) if isinstance(inner, ast.Global) for name in inner.names
        }
        self.alone: ast.expr | None = None
        """The expression that is a statement of its own."""
        self.found: dict[int, Marks] = {}
        """Marks of the expressions of the present statement."""

    def inner(self, node: FunctionNode) -> None:
        """Evaluate a function inside this one."""
        raise NotImplementedError

    def assign(self, target: ast.expr, marks: Marks, value: ast.expr) -> None:
        """Bind a target."""
        raise NotImplementedError

    def store(self, name: str, node: ast.expr, marks: Marks, value: ast.expr, *, again: bool) -> None:
        """Put a value into a module-level variable."""
        raise NotImplementedError

    # ---- expressions

    def value(self, node: ast.expr) -> Marks:
        """Marks of an expression, found once a statement: chains and nested tuples ask again and again."""
        if id(node) not in self.found:
            handler = getattr(self, f"_{type(node).__name__.lower()}", None)
            self.found[id(node)] = handler(node) if handler is not None else NONE
        return self.found[id(node)]

    def test(self, node: ast.expr) -> Marks:
        """A condition: a tensor in it would make the host wait. Sizes of kept memory are history here."""
        marks = self.value(node)
        if "tensor" in marks:
            self.report.add("host_sync", node, f"the condition {shown(node)} reads a tensor")
        return marks | {"history"} if "keptsize" in marks else marks

    def store_name(self, node: ast.expr) -> str | None:
        """The module-level container that calls change and that `node` names, or None."""
        if not isinstance(node, ast.Name) or node.id not in self.known.stores:
            return None
        if self.known.owner(self.chain, node.id) is not None and node.id not in self.globals:
            return None
        return node.id if self.known.is_container(node.id) else None

    def key(self, node: ast.AST, marks: Marks) -> None:
        """A tensor as a key is told apart by identity."""
        if marks & TENSORS:
            self.report.add("pointer_key", node, f"{shown(node)} as a key")

    def _name(self, node: ast.Name) -> Marks:
        name = node.id
        if self.store_name(node) is not None:
            self.report.add("state", node, f"{name} as a value: it changes from call to call")
            return frozenset({"shared"})
        owner = self.known.owner(self.chain, name)
        if owner is not None and name not in self.globals:
            return self.known.of(owner, name)
        if name in self.module.kernels:
            return frozenset({"kernel"})
        if name in self.known.stores:
            return self.known.read(name)
        return self.known.constant(name) if name in self.module.constants else NONE

    def _attribute(self, node: ast.Attribute) -> Marks:
        if self.module.path(node) is not None or self.store_name(node.value) is not None:
            return NONE
        marks = self.value(node.value)
        if "tensor" not in marks:
            return marks & {"fact", "history", "shared", "kernels", "keptsize"}
        rule = attribute_rule(node.attr, tensor=True)
        if rule is not None and node.attr != "data_ptr":  # the other walk knows `data_ptr() % 16`
            self.report.add(rule, node, shown(node))
        if node.attr in METADATA or rule in ("mode", "device_branch"):
            return frozenset({"keptsize"}) if "kept" in marks else NONE
        return contained(marks) if node.attr in VIEW_LISTS else marks

    def _subscript(self, node: ast.Subscript) -> Marks:
        store = self.store_name(node.value)
        index = self.value(node.slice)
        if store is not None:
            self.key(node.slice, index)
            return self.known.read(store)
        marks = self.value(node.value)
        if "kernel" in marks:
            if "history" in index:
                self.report.add("state", node, f"the grid {shown(node.slice)} depends on earlier calls")
            return frozenset({"launcher"})
        if "tensor" in marks and index & TENSORS:
            self.report.add("torch_compute", node, f"{shown(node)} gathers by a tensor")
        if "tensor" not in marks:
            self.key(node, index)
        return element(marks) | (index & {"history"})

    def _binop(self, node: ast.BinOp) -> Marks:
        return self.operated(node, [self.value(node.left), self.value(node.right)])

    def _unaryop(self, node: ast.UnaryOp) -> Marks:
        if isinstance(node.op, ast.Not):
            return self.test(node.operand) & {"history"}
        return self.operated(node, [self.value(node.operand)])

    def operated(self, node: ast.AST, operands: Sequence[Marks]) -> Marks:
        """Arithmetic: fine on numbers and containers, torch's work on tensors."""
        marks = union(operands)
        if "tensor" in marks:
            self.report.add("torch_compute", node, f"{shown(node)} is arithmetic on a tensor")
        return marks & (CARRIED | TENSORS | {"keptsize", "inner"})

    def _boolop(self, node: ast.BoolOp) -> Marks:
        return union(self.test(one) for one in node.values[:-1]) | self.value(node.values[-1])

    def _ifexp(self, node: ast.IfExp) -> Marks:
        if "history" in self.test(node.test):
            self.report.add("state", node, f"{shown(node)} depends on what an earlier call left behind")
        return self.value(node.body) | self.value(node.orelse)

    def _compare(self, node: ast.Compare) -> Marks:
        parts = [node.left, *node.comparators]
        asks_store = any(self.store_name(one) is not None for one in parts[1:])
        operands = [NONE if self.store_name(one) is not None else self.value(one) for one in parts]
        marks = union(operands)
        depends = asks_store or bool(marks & {"kept", "keptsize", "history"})
        if all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            if sum(bool(one & TENSORS) for one in operands) > 1:
                self.report.add("pointer_key", node, f"{shown(node)} compares identities")
            depends = depends or "fact" in marks
        elif all(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            self.key(node, operands[0])
        elif "tensor" in marks:
            self.report.add("torch_compute", node, f"{shown(node)} compares tensors")
        return frozenset({"history"}) if depends else NONE

    def _display(self, node: ast.Tuple | ast.List | ast.Set) -> Marks:
        return contained(union(self.value(one) for one in node.elts))

    _tuple = _list = _set = _display

    def _dict(self, node: ast.Dict) -> Marks:
        self.key(node, union(self.value(one) for one in node.keys if one is not None))
        items = [self.value(one) for key, one in zip(node.keys, node.values, strict=True) if key is not None]
        spread = [self.value(one) for key, one in zip(node.keys, node.values, strict=True) if key is None]
        return contained(union(items)) | contained(element(union(spread)))

    def _starred(self, node: ast.Starred) -> Marks:
        return element(self.value(node.value))

    def _namedexpr(self, node: ast.NamedExpr) -> Marks:
        marks = self.value(node.value)
        self.known.mark(self.node, node.target.id, marks)
        return marks

    def _lambda(self, node: ast.Lambda) -> Marks:
        self.inner(node)
        return NONE

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Marks:
        self._generators(node.generators)
        return contained(self.value(node.elt))

    _listcomp = _setcomp = _generatorexp = _comprehension

    def _dictcomp(self, node: ast.DictComp) -> Marks:
        self._generators(node.generators)
        self.key(node, self.value(node.key))
        return contained(self.value(node.value))

    def _generators(self, generators: Sequence[ast.comprehension]) -> None:
        for generator in generators:
            self.assign(generator.target, element(self.value(generator.iter)), generator.iter)
            for test in generator.ifs:
                self.test(test)

    def _slice(self, node: ast.Slice) -> Marks:
        marks = union(self.value(one) for one in (node.lower, node.upper, node.step) if one is not None)
        if "tensor" in marks:
            self.report.add("host_sync", node, f"the slice {shown(node)} reads a tensor")
        return marks & {"history"}

    def _joinedstr(self, node: ast.JoinedStr) -> Marks:
        texts = [one for one in node.values if isinstance(one, ast.FormattedValue)]
        if any(self.value(one.value) & TENSORS for one in texts):
            self.report.add("host_sync", node, f"{shown(node)} reads a tensor")
        return NONE

    # ---- calls

    def _call(self, node: ast.Call) -> Marks:
        function = node.func
        method = (
            function if isinstance(function, ast.Attribute) and self.module.path(function) is None else None
        )
        if method is not None:
            store = self.store_name(method.value)
            if store is not None:
                return self._store_method(node, store, method.attr)
        arguments = [self.value(one) for one in node.args]
        keywords = {one.arg or "**": self.value(one.value) for one in node.keywords}
        marks = union([*arguments, *keywords.values()])
        path = self.module.path(function)
        if path is not None:
            return self._library_call(node, path, arguments, marks)
        if method is not None:
            return self._method(node, method, arguments, marks)
        if isinstance(function, ast.Lambda):
            self.inner(function)
            return self._own_call(node, function, arguments, keywords)
        if isinstance(function, ast.Name):
            target = self.known.callee(self.chain, function.id)
            if target is not None:
                return self._own_call(node, target, arguments, keywords)
            if self.known.owner(self.chain, function.id) is None and not self.module.defines(function.id):
                return self._builtin(node, function.id, marks)
        if "launcher" in self.value(function):
            self._launch(node, marks)
            return NONE
        if marks & TENSORS:
            self.report.add("indirect_call", node, shown(node))
        return marks

    def _launch(self, node: ast.Call, marks: Marks) -> None:
        for keyword in node.keywords:
            if keyword.arg in LAUNCH_OPTIONS:
                self.report.add("dry_launch", node, f"{keyword.arg}={shown(keyword.value)}")
        if "history" in marks:
            self.report.add("state", node, f"an argument of {shown(node.func)} depends on earlier calls")
        if node is not self.alone:
            self.report.add("mode", node, f"the value of the launch {shown(node.func)} is used")

    def _own_call(
        self, node: ast.Call, target: FunctionNode, arguments: Sequence[Marks], keywords: Mapping[str, Marks]
    ) -> Marks:
        positional = [one.arg for one in (*target.args.posonlyargs, *target.args.args)]
        every = union([*arguments, *keywords.values()])
        spread = any(isinstance(one, ast.Starred) for one in node.args) or "**" in keywords
        named = dict(zip(positional, arguments, strict=False)) | dict(keywords)
        rest = {"*": union(arguments[len(positional) :]), "**": union(keywords.values())}
        for argument in (*target.args.posonlyargs, *target.args.args, *target.args.kwonlyargs):
            given = every | element(every) if spread else named.get(argument.arg, NONE)
            self.known.mark(target, argument.arg, _passed(given))
        for catch_all, given in ((target.args.vararg, rest["*"]), (target.args.kwarg, rest["**"])):
            if catch_all is not None:
                self.known.mark(target, catch_all.arg, _passed(contained(given)))
        if isinstance(target, ast.FunctionDef) and target.name in self.module.cached and every & TENSORS:
            self.report.add("state", node, f"{shown(node)} caches by a tensor")
        return self.known.result(target)

    def _library_call(self, node: ast.Call, path: str, arguments: Sequence[Marks], marks: Marks) -> Marks:
        self._options(node)
        if path in TORCH_ALLOCATE:
            if "tensor" in union(arguments) and not path.endswith("_like"):
                self.report.add("host_sync", node, f"{shown(node)} reads a tensor")
            return frozenset({"tensor"}) | (marks & {"history"})
        if path in TORCH_VIEW:
            found = frozenset({"tensor"}) | (marks & {"input", "passed", "kept"})
            if path in _COPYING_FUNCTIONS and "kept" in marks:
                self.report.add("state", node, f"{shown(node)} copies what an earlier call left")
            return contained(found) if path.split(".")[-1] in VIEW_LISTS else found
        if path in TORCH_FACTS | TRITON_FACTS:
            return frozenset({"fact"})
        if path in DESCRIPTORS or path == "triton.reinterpret":
            return contained(marks)
        if path in ("torch.is_tensor", "torch.numel"):
            return NONE
        if marks & TENSORS and path.startswith(("math.", "triton.")):
            self.report.add("host_sync", node, f"{shown(node)} reads a tensor")
        return marks & {"history", "fact", "keptsize"}

    def _options(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            if keyword.arg == "out":
                self.report.add("torch_compute", node, shown(node))

    def _method(
        self, node: ast.Call, method: ast.Attribute, arguments: Sequence[Marks], marks: Marks
    ) -> Marks:
        self.value(method)  # reports what a tensor may not be asked
        base = self.value(method.value)
        name = method.attr
        if "tensor" in base:
            return self._tensor_method(node, name, base, arguments, marks)
        if name in MUTATES:
            if "shared" in base:
                self.report.add("state", node, f"{shown(node)} changes a value that all calls share")
            if isinstance(method.value, ast.Name):
                owner = self.known.owner(self.chain, method.value.id) or self.node
                held = contained(element(marks)) if name in ("update", "extend") else contained(marks)
                self.known.mark(owner, method.value.id, held)
        if name in ("get", "setdefault", "pop"):
            self.key(node, arguments[0] if arguments else NONE)
            return element(base) | union(arguments[1:])
        if name in ("items", "values", "keys"):
            return base
        return (base | marks) & (CARRIED | {"tensors", "shared", "keptsize"}) - {"input", "passed"}

    def _tensor_method(
        self, node: ast.Call, name: str, base: Marks, arguments: Sequence[Marks], marks: Marks
    ) -> Marks:
        self._options(node)
        if name == "to" and any(
            isinstance(one, ast.Constant) and isinstance(one.value, str) for one in node.args
        ):
            self.report.add("host_sync", node, f"{shown(node)} moves a tensor between devices")
        if ("kept" in base and name in _COPYING_METHODS) or ("kept" in marks and name == "copy_"):
            self.report.add("state", node, f"{shown(node)} copies what an earlier call left")
        if name in ALLOCATES:
            return frozenset({"tensor"})
        if name in METADATA or name == "data_ptr":
            return frozenset({"keptsize"}) if "kept" in base else NONE
        if name in ("view", "reshape", "expand", "narrow", "select") and any(
            "tensor" in one for one in arguments
        ):
            self.report.add("host_sync", node, f"{shown(node)} reads a tensor")
        if name in VIEW_LISTS:
            return contained(base)
        return base if name in VIEWS | COPIES else base & (CARRIED | TENSORS)

    def _store_method(self, node: ast.Call, store: str, name: str) -> Marks:
        arguments = [self.value(one) for one in node.args]
        if name not in ("get", "setdefault") or node.keywords or not 1 <= len(arguments) <= 2:
            self.report.add("state", node, shown(node))
            return NONE
        self.key(node.args[0], arguments[0])
        if name == "setdefault" and len(arguments) == 2:
            self.store(store, node, arguments[1], node.args[1], again=False)
        elif len(arguments) == 2 and not (
            isinstance(node.args[1], ast.Constant) and node.args[1].value is None
        ):
            self.report.add("state", node, f"{shown(node)}: what the first call gets differs")
        return self.known.read(store)

    def _builtin(self, node: ast.Call, name: str, marks: Marks) -> Marks:
        if builtin_rule(name, kernel=False) is not None:
            return NONE  # the name itself is refused
        if "tensor" in marks and name not in _PASSES_ON | _ASKS:
            rule = "torch_compute" if name in _COMPUTES else "host_sync"
            self.report.add(rule, node, f"{shown(node)} reads a tensor")
        if "tensors" in marks and name in _READS_ITEMS:
            self.report.add("torch_compute", node, f"{shown(node)} computes on tensors")
        if name in _ASKS:
            return marks & {"history", "keptsize"}
        if name in _PASSES_ON:
            return contained(element(marks)) | (marks & {"kernels"})
        return marks & {"history", "fact", "keptsize"}


def _passed(marks: Marks) -> Marks:
    return marks | {"passed"} if marks & TENSORS else marks
