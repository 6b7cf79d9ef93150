"""Which setting of a candidate's tunables to try next.

One Settler looks after one bucket of one experiment. What it answers depends on its seed and on what was
asked and told before, never on the clock or on earlier objects: a killed engine that tells it the recorded
trials again gets the same next setting.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kernel_lab.engine.candidate import Value
from kernel_lab.engine.proposers.base import PastExperiment

ENUMERATED_SETTINGS = 16
"""Spaces of at most this many settings are tried one by one, nearest to the parent's values first."""

STARTUP_TRIALS = 4
"""Settings that the sampler wants to know before it draws by them rather than at random."""

SAMPLED_EVERY = 3
"""One ask in so many goes to the sampler, the others step from the best setting so far: champions are good
already, and with 8 to 12 trials steps find more than the sampler does by itself."""

SAMPLER_TRIES = 4
"""How often the sampler is asked for a setting that was not tried yet, before the nearest one is taken."""

Values = Mapping[str, Value]
Told = tuple[Values, float | None]


class Settler:
    """Asks for settings and is told how fast each was (parent / trial, above 1 is faster; None: it failed).

    `space` lists the values of the tunables to settle. `parent_values` are not asked for, as the proposal
    itself is judged with them. `warm_start` holds earlier trials of this bucket, perhaps of other code: they
    teach the sampler, but may be asked for again.
    """

    def __init__(
        self,
        seed: int,
        space: Mapping[str, Sequence[Value]],
        parent_values: Values,
        warm_start: Sequence[Told] = (),
    ) -> None:
        self.seed = seed
        self.space = {name: tuple(values) for name, values in space.items()}
        self.size = math.prod(len(values) for values in self.space.values())
        self._parent = {name: parent_values[name] for name in self.space if name in parent_values}
        self._warm_start = [told for told in (self._known(*one) for one in warm_start) if told is not None]
        self._told: list[Told] = []
        self._asked = {self._key(self._parent)} if self._is_setting(self._parent) else set()
        self._pending: list[str] = []

    def ask(self) -> dict[str, Value] | None:
        """A setting that was neither asked for nor told before; None when there is none left."""
        if not self.space or len(self._asked) >= self.size:
            return None
        values = None
        if self.size > ENUMERATED_SETTINGS:
            sampled = (len(self._told) + len(self._pending)) % SAMPLED_EVERY == SAMPLED_EVERY - 1
            values = self._sampled() if sampled else self._step() or self._sampled()
        if values is None:
            values = next(one for one in self._by_distance() if self._key(one) not in self._asked)
        self._asked.add(self._key(values))
        self._pending.append(self._key(values))
        return values

    def tell(self, values: Values, value: float | None) -> None:
        """How a setting did. Settings that were never asked for are welcome: so a resumed run catches up."""
        known = self._known(values, value)
        if known is None:
            return
        key = self._key(known[0])
        self._asked.add(key)
        if key in self._pending:
            self._pending.remove(key)
        self._told.append(known)

    def _known(self, values: Values, value: float | None) -> Told | None:
        mine = {name: values[name] for name in self.space if name in values}
        if not self._is_setting(mine):
            return None
        return mine, value if value is None or math.isfinite(value) else None

    def _is_setting(self, values: Values) -> bool:
        return all(
            name in values and _index(values[name], options) is not None
            for name, options in self.space.items()
        )

    def _key(self, values: Values) -> str:
        return json.dumps([values[name] for name in self.space])

    def _by_distance(self) -> Iterator[dict[str, Value]]:
        """Every setting, those with the fewest and smallest changes from the parent's values first."""
        start = [_index(self._parent.get(name), options) or 0 for name, options in self.space.items()]
        indexes = itertools.product(*(range(len(options)) for options in self.space.values()))
        if self.size > 100_000:  # too many to sort: any order will do
            ordered: Iterator[tuple[int, ...]] = indexes
        else:
            ordered = iter(
                sorted(
                    indexes,
                    key=lambda at: (
                        sum(a != b for a, b in zip(at, start, strict=True)),
                        sum(abs(a - b) for a, b in zip(at, start, strict=True)),
                        at,
                    ),
                )
            )
        for at in ordered:
            yield {name: options[i] for (name, options), i in zip(self.space.items(), at, strict=True)}

    def _step(self) -> dict[str, Value] | None:
        """A setting that was not asked for yet, one tunable away from the best so far."""
        good = [(value, -at, values) for at, (values, value) in enumerate(self._told) if value is not None]
        best = max(good, key=lambda one: one[:2])[2] if good else self._parent
        if not self._is_setting(best):
            return None
        steps: list[dict[str, Value]] = []
        for name, options in self.space.items():
            at = _index(best[name], options) or 0
            near = (at - 1, at + 1) if _is_ordered(options) else range(len(options))
            steps += [{**best, name: options[i]} for i in near if 0 <= i < len(options) and i != at]
        fresh = [step for step in steps if self._key(step) not in self._asked]
        return fresh[self._draw_seed(0) % len(fresh)] if fresh else None

    def _sampled(self) -> dict[str, Value] | None:
        """A setting from a tree-structured Parzen estimator, fresh from seed and history."""
        optuna = _optuna()
        distributions: dict[str, Any] = {
            name: optuna.distributions.IntDistribution(0, len(options) - 1)
            if _is_ordered(options)
            else optuna.distributions.CategoricalDistribution(tuple(range(len(options))))
            for name, options in self.space.items()
        }
        past = [
            optuna.trial.create_trial(
                params={name: _index(values[name], options) for name, options in self.space.items()},
                distributions=distributions,
                value=0.0 if value is None else value,
            )
            for values, value in (*self._warm_start, *self._told)
        ]
        for attempt in range(SAMPLER_TRIES):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # multivariate is marked experimental
                sampler = optuna.samplers.TPESampler(
                    seed=self._draw_seed(attempt), multivariate=True, n_startup_trials=STARTUP_TRIALS
                )
                study = optuna.create_study(sampler=sampler, direction="maximize")
                study.add_trials(past)
                params = study.ask(distributions).params
            values = {name: options[params[name]] for name, options in self.space.items()}
            if self._key(values) not in self._asked:
                return values
        return None

    def _draw_seed(self, attempt: int) -> int:
        text = json.dumps([self.seed, len(self._told), len(self._pending), attempt])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def past_trials(history: Iterable[PastExperiment], bucket: str) -> list[Told]:
    """Every setting that was tried in a bucket, oldest first, as a warm start for its next Settler."""
    return [
        (trial.values, trial.vs_parent if trial.status == "ok" else None)
        for past in history
        for trial in past.trials
        if trial.bucket == bucket and trial.status != "pruned"
    ]


def _is_ordered(options: Sequence[Value]) -> bool:
    """Whether neighbours in the list are neighbours in meaning: numbers that rise or fall."""
    if not all(isinstance(option, int | float) and not isinstance(option, bool) for option in options):
        return False
    return list(options) in (sorted(options), sorted(options, reverse=True))


def _index(value: Value | None, options: Sequence[Value]) -> int | None:
    for index, option in enumerate(options):
        if type(option) is type(value) and option == value:
            return index
    return None


def _optuna() -> Any:
    """The library, imported only when a large space needs it (it takes most of a second), and silent."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
