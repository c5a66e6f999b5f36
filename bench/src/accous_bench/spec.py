"""The specification of a benchmark: a grid in TOML, checked before anything runs."""

from __future__ import annotations

import importlib.util
import itertools
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from accous.exceptions import AccousError, ParameterError
from accous.text import did_you_mean, require_integer
from accous_bench.contenders import FRESH_ROWS, PREDICT_FIRST, PROTOCOLS, get_contender
from accous_bench.grid import Measures, Run
from accous_bench.problems import NATURAL, SHIFTS, Problem, Setting, get_problem

__all__ = ["Spec", "find_spec", "line_of", "load_plugin", "prepare", "read_spec", "spec_folder", "spec_names"]

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


def line_of(text: str, path: tuple[str, ...], value: object = None) -> int | None:
    r"""Return the line of a key, counted from 1, or of a value in its list if one is given and found.

    Parameters
    ----------
    text : str
        Valid TOML.
    path : tuple of str
        Names of the tables, then the key; if the last name is a table, its header is found.
    value : object, optional
        An entry of the key's list.

    Examples
    --------
    >>> from accous_bench.spec import line_of
    >>> line_of("seeds = 2\n[options.gaussian]\nn_features = 0", ("options", "gaussian", "n_features"))
    3
    >>> line_of('shifts = [\n  "Lin",\n  "Squ",\n]', ("shifts",), "Squ")
    3
    """
    lines = text.splitlines()
    table: tuple[str, ...] = ()
    for number, line in enumerate(lines, start=1):
        header = re.match(r"\s*\[+([^\]]+)\]+", line)
        if header:
            table = tuple(part.strip().strip("\"'") for part in header[1].split("."))
            if table == path:
                return number
            continue
        key = re.match(r"\s*([\w.\"' -]+?)\s*=", line)
        if key and (*table, *(part.strip().strip("\"'") for part in key[1].split("."))) == path:
            return number if value is None else _line_of_entry(lines, number, value)
    return None


def _line_of_entry(lines: list[str], first: int, value: object) -> int:
    """Return the line of an entry of the list that begins at ``line``, or ``line`` if the list does not have it."""
    wanted = [f'"{value}"', f"'{value}'"] if isinstance(value, str) else [str(value)]
    for number in range(first, len(lines) + 1):
        if any(re.search(rf"(?<![\w.-]){re.escape(text)}(?![\w.])", lines[number - 1]) for text in wanted):
            return number
        if "]" in lines[number - 1]:
            break
    return first


_LISTS = ("datasets", "shifts", "batch_sizes", "contenders", "rounds", "seeds")
_KEYS = (
    *(*_LISTS, "title", "description", "options", "parameters", "plugins"),
    *("score_every", "one_step_every", "points", "record", "protocol"),
)
_RECORDS = ("learner_weights", "regret")
_SCORED_ROUNDS = 2000


@dataclass(frozen=True)
class Spec:
    """A grid of data set x shift x batch size x rounds x contender x seed, and what to measure.

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
        See `Measures`; None scores about 2,000 rounds of a stream.
    one_step_every : int
        See `Measures`; 1 lets every contender play all rounds.
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

    def only(self, **chosen: Sequence[Any]) -> Spec:
        """Return the part of the grid with these entries.

        Raises
        ------
        ParameterError
            If an entry is not in the grid.
        """
        for key, entries in chosen.items():
            missing = [entry for entry in entries if entry not in getattr(self, key)]
            if missing:
                has = [str(entry) for entry in getattr(self, key)]
                meant = did_you_mean(str(missing[0]), has) if isinstance(missing[0], str) else ""
                what = key.removesuffix("s").replace("_", " ")
                raise ParameterError(
                    f"The spec {self.name} has no {what} {missing[0]!r}{meant}, only {', '.join(has)}."
                )
        parts: dict[str, Any] = {key: tuple(entries) for key, entries in chosen.items()}
        return replace(self, **parts)

    def runs(self) -> list[Run]:
        """Return all runs, one seed after the other, so that the first results are a complete, smaller benchmark."""
        cells = itertools.product(
            self.seeds, self.datasets, self.batch_sizes, self.rounds, self.shifts, self.contenders
        )
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
            for seed, dataset, batch_size, n_rounds, shift, contender in cells
        ]

    def _measures(self, n_rounds: int) -> Measures:
        return Measures(
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


def read_spec(path: Path) -> Spec:
    """Read and check a spec.

    Raises
    ------
    ParameterError
        If the spec is invalid; the message names the file and line.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParameterError(f"{path} is not TOML: {error}.") from error
    return _Reader(path, text, content).read()


@dataclass(frozen=True)
class _Reader:
    """Turns the content of a TOML file into a `Spec`; every error names the line."""

    path: Path
    text: str
    content: dict[str, Any]

    def read(self) -> Spec:
        for key in self.content:
            if key not in _KEYS:
                self._refuse(f"unknown setting {key!r}; the settings are {', '.join(_KEYS)}", key)
        self._load_plugins()
        spec = Spec(
            name=self.path.stem,
            title=self._text("title", self.path.stem),
            description=self._text("description", ""),
            datasets=self._names("datasets", get_problem),
            shifts=self._names("shifts", self._check_shift),
            contenders=self._names("contenders", get_contender),
            batch_sizes=self._counts("batch_sizes"),
            rounds=self._counts("rounds"),
            seeds=self._seeds(),
            options=self._options(),
            parameters=self._parameters(),
            score_every=self._count("score_every", None),
            one_step_every=self._count("one_step_every", 1) or 1,
            points=self._count("points", 200) or 200,
            record=self._names("record", self._check_record, default=[]),
            protocol=self._protocol(),
        )
        self._check_pairs(spec)
        return spec

    def _check_pairs(self, spec: Spec) -> None:
        """Raise an error if a data set does not support a shift or a measure."""
        for name, shift in itertools.product(spec.datasets, spec.shifts):
            problem = get_problem(name)
            if shift not in problem.shifts:
                self._refuse(
                    f"{name} has the shifts {', '.join(problem.shifts)} only, not {shift!r}", "shifts", value=shift
                )
        for name in spec.datasets if "regret" in spec.record else ():
            if name != "moving_gaussian":
                self._refuse(f"the regret is known for moving_gaussian only, not for {name}", "record", value="regret")

    def _load_plugins(self) -> None:
        for name in self._list("plugins", str, []):
            file = self.path.parent / name
            if not file.is_file():
                self._refuse(f"there is no file {name!r} next to the spec", "plugins", value=name)
            try:
                load_plugin(file)
            except Exception as error:
                self._refuse(f"{name} cannot be loaded ({type(error).__name__}: {error})", "plugins", value=name)

    def _options(self) -> dict[str, dict[str, Any]]:
        options = self.content.get("options", {})
        for name, given in options.items():
            problem = self._checked(partial(get_problem, name), "options", name)
            for key in given:
                if key not in problem.options:
                    has = ", ".join(problem.options) or "none"
                    self._refuse(f"{name} has no option {key!r}; its options are: {has}", "options", name, key)
        return dict(options)

    def _parameters(self) -> dict[str, dict[str, Any]]:
        parameters = self.content.get("parameters", {})
        for name, given in parameters.items():
            contender = self._checked(partial(get_contender, name), "parameters", name)
            for key, value in given.items():
                try:
                    contender(0).set_params(**{key: value})
                except (AttributeError, ValueError):
                    self._refuse(f"{name} has no parameter {key!r}", "parameters", name, key)
        return dict(parameters)

    def _names(self, key: str, check: Callable[[str], Any], default: list[str] | None = None) -> tuple[str, ...]:
        names = self._list(key, str, default)
        for name in names:
            self._checked(partial(check, name), key, value=name)
        return tuple(names)

    def _counts(self, key: str) -> tuple[int, ...]:
        counts = self._list(key, int, None)
        for count in counts:
            self._checked(partial(require_integer, key, count, at_least=1), key, value=count)
        return tuple(counts)

    def _count(self, key: str, default: int | None) -> int | None:
        if key not in self.content:
            return default
        count = self.content[key]
        self._checked(partial(require_integer, key, count, at_least=1), key)
        return int(count)

    def _seeds(self) -> tuple[int, ...]:
        """Read a number of seeds, or a list of seeds."""
        given = self.content.get("seeds", 5)
        if isinstance(given, int) and not isinstance(given, bool):
            self._checked(partial(require_integer, "seeds", given, at_least=1), "seeds")
            return tuple(range(given))
        seeds = self._list("seeds", int, None)
        for seed in seeds:
            self._checked(partial(require_integer, "seeds", seed, at_least=0), "seeds", value=seed)
        return tuple(seeds)

    def _protocol(self) -> str:
        protocol = self._text("protocol", PREDICT_FIRST)
        if protocol not in PROTOCOLS:
            meant = did_you_mean(protocol, PROTOCOLS)
            self._refuse(f"there is no protocol {protocol!r}{meant}; name one of {', '.join(PROTOCOLS)}", "protocol")
        if protocol == FRESH_ROWS and NATURAL in self._list("shifts", str, None):
            self._refuse("fresh_rows needs streams whose distribution is known, not natural drift", "protocol")
        return protocol

    def _list(self, key: str, kind: type, default: list[Any] | None) -> list[Any]:
        """Read a list without repetitions; a single entry needs no brackets."""
        if key not in self.content and default is None:
            raise ParameterError(f"{self.path}: {key} is missing.")
        given = self.content.get(key, default)
        entries = given if isinstance(given, list) else [given]
        for entry in entries:
            if not isinstance(entry, kind) or isinstance(entry, bool):
                wanted = "a text" if kind is str else "an integer"
                self._refuse(f"{key} has {entry!r}, which is not {wanted}", key, value=entry)
        if len(set(entries)) < len(entries):
            self._refuse(f"{key} names an entry twice", key)
        if not entries and default is None:
            self._refuse(f"{key} is empty", key)
        return entries

    def _text(self, key: str, default: str) -> str:
        text = self.content.get(key, default)
        if not isinstance(text, str):
            self._refuse(f"{key} must be a text, got {text!r}", key)
        return str(text)

    def _checked(self, check: Callable[[], Any], *path: str, value: object = None) -> Any:
        try:
            return check()
        except AccousError as error:
            return self._refuse(str(error).rstrip("."), *path, value=value)

    def _refuse(self, complaint: str, *path: str, value: object = None) -> None:
        line = line_of(self.text, path, value)
        place = f"{self.path}, line {line}" if line else f"{self.path}"
        raise ParameterError(f"{place}: {complaint}.")

    @staticmethod
    def _check_shift(name: str) -> None:
        if name not in (*SHIFTS, NATURAL):
            meant = did_you_mean(name, SHIFTS)
            raise ParameterError(f"There is no shift {name!r}{meant}: name one of {', '.join(SHIFTS)}, {NATURAL}.")

    @staticmethod
    def _check_record(name: str) -> None:
        if name not in _RECORDS:
            raise ParameterError(f"record may have {' and '.join(_RECORDS)}, not {name!r}.")


def prepare(spec: Spec, tell: Callable[[str], None] = lambda _: None) -> None:
    """Prepare the data of every problem, or say what is missing; announce steps that may take long."""
    for name in spec.contenders:
        module = get_contender(name).needs_module
        if module and not _is_installed(module):
            raise ParameterError(
                f"{name} needs {module}: pip install 'accous[deep]', or name the other contenders with --contenders."
            )
    for name in spec.datasets:
        problem: Problem = get_problem(name)
        if problem.patience:
            tell(f"{name}: {problem.patience}")
        problem.prepare()


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # raised for a dotted name if its package is missing
        return False
