"""The specification of a benchmark: a grid in TOML, checked before anything runs."""

from __future__ import annotations

import itertools
import math
import random
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from accous.exceptions import AccousError, ParameterError
from accous.text import did_you_mean, require_integer
from accous_bench.contenders import FRESH_ROWS, PREDICT_FIRST, PROTOCOLS, get_contender
from accous_bench.grid import MeasurePlan, Run
from accous_bench.problems import NATURAL, SHIFTS, Problem, Setting, get_problem

__all__ = ["Spec", "find_spec", "load_plugin", "prepare", "read_spec", "spec_folder", "spec_names"]

_loaded: dict[tuple[Path, str], ModuleType] = {}


def load_plugin(path: Path) -> None:
    """Run a file once per process.

    The module is not added to ``sys.modules``, so its definitions are sent to other processes by value, and these
    processes do not need the file.
    """
    text = path.read_text(encoding="utf-8")
    if (path, text) not in _loaded:
        module = ModuleType(f"accous_plugin_{path.stem}")
        module.__file__ = str(path)
        exec(compile(text, str(path), "exec"), module.__dict__)  # the user's own code, run at the user's request
        _loaded[path, text] = module


_RECORDS = ("learner_weights", "regret")
_SCORED_ROUNDS = 2000


@dataclass(frozen=True)
class Spec:
    """A grid of data set x shift x batch size x rounds x contender x seed, and what to measure; it checks itself.

    Attributes
    ----------
    name, title, description : str
    datasets, shifts, contenders : tuple of str
    batch_sizes, rounds, seeds : tuple of int
    options : mapping
        Further options of the streams, by data set name.
    parameters : mapping
        Parameters to set on a model, by contender name, such as ``refit`` or ``ratio__step_size``.
    score_every : int or None
        See `MeasurePlan`; None scores about 2,000 rounds of a stream.
    one_step_every : int
        See `MeasurePlan`; 1 lets every contender run all rounds.
    points : int
        Number of points of the curves.
    record : tuple of str
        Further measurements: "learner_weights", "regret".
    protocol : str
        "predict_first", "fresh_rows" or "batch_first", the same for all contenders.
    """

    name: str
    title: str
    description: str
    datasets: tuple[str, ...]
    shifts: tuple[str, ...]
    contenders: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    rounds: tuple[int, ...]
    seeds: tuple[int, ...]
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    score_every: int | None = None
    one_step_every: int = 1
    points: int = 200
    record: tuple[str, ...] = ()
    protocol: str = PREDICT_FIRST

    def __post_init__(self) -> None:
        for key in ("batch_sizes", "rounds"):
            for number in getattr(self, key):
                require_integer(key, number, at_least=1)
        for seed in self.seeds:
            require_integer("seeds", seed, at_least=0)
        for key in ("score_every", "one_step_every", "points"):
            if getattr(self, key) is not None:
                require_integer(key, getattr(self, key), at_least=1)
        for name in self.record:
            _require_known("record", name, _RECORDS)
        _require_known("protocol", self.protocol, PROTOCOLS)
        for name in self.contenders:
            get_contender(name)
        for shift in self.shifts:
            _require_known("shifts", shift, (*SHIFTS, NATURAL))
        self._check_datasets()
        self._check_options()

    def _check_datasets(self) -> None:
        """Raise an error if a data set does not support a shift, a measure or the protocol."""
        for name, shift in itertools.product(self.datasets, self.shifts):
            problem = get_problem(name)
            if shift not in problem.shifts:
                raise ParameterError(f"{name} has the shifts {', '.join(problem.shifts)} only, not {shift!r}.")
        for name in self.datasets if "regret" in self.record else ():
            if name != "moving_gaussian":
                raise ParameterError(f"The regret is known for moving_gaussian only, not for {name}.")
        if self.protocol == FRESH_ROWS and NATURAL in self.shifts:
            raise ParameterError("fresh_rows needs streams whose distribution is known, not natural drift.")

    def _check_options(self) -> None:
        for name, given in self.options.items():
            for key in given:
                _require_known(f"options.{name}", key, get_problem(name).options)
        for name, given in self.parameters.items():
            for key, value in given.items():
                try:
                    get_contender(name)(0).set_params(**{key: value})
                except (AttributeError, ValueError) as error:
                    raise ParameterError(f"parameters: {name} has no parameter {key!r}.") from error

    def only(self, **chosen: Sequence[Any]) -> Spec:
        """Return the part of the grid with these entries.

        Raises
        ------
        ParameterError
            If an entry is not in the grid.
        """
        for key, entries in chosen.items():
            for entry in entries:
                _require_known(f"'{key}' of the spec {self.name}", entry, getattr(self, key))
        parts: dict[str, Any] = {key: tuple(entries) for key, entries in chosen.items()}
        return replace(self, **parts)

    def runs(self, share: float = 1.0) -> list[Run]:
        """Return the runs, one seed after the other, so that the first results are a complete, smaller benchmark.

        With a share below 1, only so many of each contender's, at least one: a random sample, each time the same.
        """
        if not 0.0 < share <= 1.0:
            raise ParameterError(f"share must be above 0 and at most 1, got {share!r}.")
        streams = list(itertools.product(self.seeds, self.datasets, self.batch_sizes, self.rounds, self.shifts))
        n_drawn = math.ceil(share * len(streams))
        drawn = {name: set(random.Random(name).sample(range(len(streams)), n_drawn)) for name in self.contenders}
        return [
            Run(
                self.name,
                get_problem(dataset),
                get_contender(contender),
                Setting(shift, batch_size, n_rounds, seed, self.options.get(dataset, {})),
                self._measures(n_rounds),
                self.parameters.get(contender, {}),
                self.protocol,
            )
            for place, (seed, dataset, batch_size, n_rounds, shift) in enumerate(streams)
            for contender in self.contenders
            if place in drawn[contender]
        ]

    def _measures(self, n_rounds: int) -> MeasurePlan:
        return MeasurePlan(
            score_every=self.score_every or max(1, n_rounds // _SCORED_ROUNDS),
            n_points=self.points,
            has_learner_weights="learner_weights" in self.record,
            has_regret="regret" in self.record,
            one_step_every=self.one_step_every,
        )


def spec_folder() -> Path:
    """Return the folder of the built-in specs."""
    return Path(__file__).resolve().parent / "specs"


def spec_names() -> list[str]:
    """Return the names of the built-in specs."""
    return sorted(path.stem for path in spec_folder().glob("*.toml"))


def find_spec(name: str) -> Path:
    """Return the path of a spec, given its file or its name."""
    for path in (Path(name), spec_folder() / f"{name}.toml"):
        if path.is_file():
            return path
    known = spec_names()
    raise ParameterError(
        f"There is no spec {name!r}{did_you_mean(name, known)}: give a TOML file, or one of {', '.join(known)}."
    )


def _require_known(what: str, name: object, known: Sequence[object]) -> None:
    if name not in known:
        names = [str(each) for each in known]
        meant = did_you_mean(str(name), names)
        raise ParameterError(f"{what} has no {name!r}{meant}, only {', '.join(names) or 'none'}.")


def read_spec(path: Path) -> Spec:
    """Read and check a spec.

    Raises
    ------
    ParameterError
        If the spec is invalid; the message names the file and the setting.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParameterError(f"{path} is not TOML: {error}.") from error
    try:
        return _spec(path, content)
    except AccousError as error:
        raise ParameterError(f"{path}: {error}") from error


def _spec(path: Path, content: dict[str, Any]) -> Spec:
    for name in _entries(content, "plugins", str, []):
        _load_beside(path, name)
    given = dict(content)
    given.pop("plugins", None)
    for key in given:
        _require_known("The spec", key, (*(each.name for each in fields(Spec) if each.name != "name"), "plugins"))
    seeds = given.setdefault("seeds", 5)
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        given["seeds"] = list(range(seeds))
    for key in ("datasets", "shifts", "contenders"):
        given[key] = _entries(given, key, str)
    for key in ("batch_sizes", "rounds", "seeds"):
        given[key] = _entries(given, key, int)
    given["record"] = _entries(given, "record", str, [])
    for key in ("title", "description", "protocol"):
        if not isinstance(given.get(key, ""), str):
            raise ParameterError(f"{key} must be a text, got {given[key]!r}.")
    return Spec(path.stem, given.pop("title", path.stem), given.pop("description", ""), **given)


def _load_beside(path: Path, name: str) -> None:
    file = path.parent / name
    if not file.is_file():
        raise ParameterError(f"plugins: there is no file {name!r} next to the spec.")
    try:
        load_plugin(file)
    except AccousError as error:
        raise ParameterError(f"plugins: {name}: {error}") from error
    except Exception as error:
        raise ParameterError(f"plugins: {name} cannot be loaded ({type(error).__name__}: {error}).") from error


def _entries(content: dict[str, Any], key: str, kind: type, default: list[Any] | None = None) -> tuple[Any, ...]:
    """Read a list without repetitions; a single entry needs no brackets."""
    if key not in content and default is None:
        raise ParameterError(f"{key} is missing.")
    given = content.get(key, default)
    entries = given if isinstance(given, list) else [given]
    for entry in entries:
        if not isinstance(entry, kind) or isinstance(entry, bool):
            raise ParameterError(f"{key} has {entry!r}, which is not {'a text' if kind is str else 'an integer'}.")
    if len(set(entries)) < len(entries):
        raise ParameterError(f"{key} names an entry twice.")
    if not entries and default is None:
        raise ParameterError(f"{key} is empty.")
    return tuple(entries)


def prepare(spec: Spec, tell: Callable[[str], None] = lambda _: None) -> None:
    """Prepare the data of every problem, or say what is missing; announce steps that may take long."""
    for name in spec.datasets:
        problem: Problem = get_problem(name)
        if problem.patience:
            tell(f"{name}: {problem.patience}")
        problem.prepare()
