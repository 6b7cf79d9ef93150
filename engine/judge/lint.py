"""The lint: what a candidate's text may contain, decided on its syntax tree, each finding explained.

It refuses whole kinds of cheats before anything runs: what reaches outside, what keeps results from call to
call, what lets torch or a library do the work, what tells a check from a timed call, what hides what it does.
It is the first line and not the only one: every kind also has a probe at run time.

    lint_module, lint_code, lint_scopes, lint_names   a closed world: what is not on a list is refused
    lint_flow, lint_calls, lint_values, lint_marks    where tensors and kept memory go
    lint_paths                                        every way through the entry launches a kernel
    lint_text, lint_sizes                             texts, tables and constant expressions are bounded
"""

from __future__ import annotations

from collections.abc import Iterable

from kernel_lab.engine.candidate import parse_tree
from kernel_lab.engine.errors import CandidateInvalid
from kernel_lab.engine.facts import Reason
from kernel_lab.engine.judge.lint_code import check_code
from kernel_lab.engine.judge.lint_flow import check_flow
from kernel_lab.engine.judge.lint_module import read_module
from kernel_lab.engine.judge.lint_paths import check_paths
from kernel_lab.engine.judge.lint_rules import RULES, Report, Rule
from kernel_lab.engine.judge.lint_sizes import check_sizes
from kernel_lab.engine.judge.lint_text import check_text

__all__ = ["RULES", "Rule", "lint", "lint_verdict"]


def lint(source: str, entry: str) -> list[Reason]:
    """Every reason to turn a candidate down before it runs, in the order of lines; empty if there is none.

    `probe` is the rule's name and `detail` says the line, what it is, why it is refused and what to write
    instead. Text that cannot be parsed gives one reason of the gate `scope`.
    """
    report = Report()
    try:
        tree = parse_tree(source)
        module = read_module(tree, entry, report)
        check_text(module, report)
        check_sizes(module, report)
        check_code(module, report)
        check_flow(module, report)
        check_paths(module, report)
    except CandidateInvalid as error:
        return [Reason("scope", "candidate", str(error))]
    except RecursionError:
        return [Reason("scope", "candidate", "the candidate is nested too deeply; split its functions")]
    return report.reasons()


def lint_verdict(reasons: Iterable[Reason]) -> str:
    """`cheat` if any reason is of a rule of that kind, else `invalid`."""
    kinds = {RULES[reason.probe].kind for reason in reasons if reason.probe in RULES}
    return "cheat" if "cheat" in kinds else "invalid"
