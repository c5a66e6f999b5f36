"""Runs: a contender on a stream, scored; a grid of them on the cores of a machine; their records."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.exceptions import AccousError, DataError, ParameterError
from accous.threads import one_blas_thread
from accous_bench.contenders import PREDICT_FIRST, Contender, fit_on, rounds
from accous_bench.problems import Problem, Setting, Stream

__all__ = [
    "MeasurePlan", "RoundScores", "Run", "WorkerDiedError", "append_row", "commit", "expected_excess_loss",
    "machine", "observed_loss", "read_rows", "repair", "run_grid", "run_one", "scored_rounds",
    "unfinished", "versions",
]  # fmt: skip

# --- the origin of a measurement ---

_PACKAGES = ("accous", "numpy", "scipy", "scikit-learn", "numba", "torch")


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that the numbers depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def commit() -> str | None:
    """Return the short hash of the checkout's commit, with ``+`` if its sources were changed; None outside of one."""
    folder = Path(__file__).resolve().parent
    try:
        name = _ask_git(folder, "rev-parse", "--short=12", "HEAD")
        return name + ("+" if _ask_git(folder, "status", "--porcelain", "--", ":/src", ":/bench/src") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def machine() -> str:
    """Return the kind of processor and the number of cores."""
    return f"{platform.machine()}, {os.cpu_count()} cores"


def _ask_git(folder: Path, *arguments: str) -> str:
    answer = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return answer.stdout.strip()


# --- what is measured: errors in every round, more expensive scores in some, averaged over blocks ---

SCORES = ("risk", "estimator_loss", "ratio_error", "effective_sample_size", "excess_loss")


def scored_rounds(n_rounds: int, every: int, seed: int) -> NDArray[np.bool_]:
    """Return which rounds are scored: one drawn at random from every segment of ``every`` rounds.

    A fixed stride that divides the period of a shift would never score some phases of it, such as the rounds just after
    a switch. All contenders of a seed are scored in the same rounds.
    """
    starts = np.arange(0, n_rounds, every)
    lengths = np.minimum(every, n_rounds - starts)
    is_scored = np.zeros(n_rounds, dtype=bool)
    is_scored[starts + np.random.default_rng([seed, 5]).integers(lengths)] = True
    return is_scored


def observed_loss(reference_ratio: FloatArray, batch_ratio: FloatArray, max_ratio: float) -> float:
    r"""Return the logistic loss of a round as a function of the ratio.

    .. math:: \tfrac12 \Big( \operatorname*{mean}_{S_0} \log(1 + r) + \operatorname*{mean}_{S_t} \log(1 + 1/r) \Big)

    This is the paper's loss of theta at r = exp(-phi.theta). Batch ratios below 1 / ``max_ratio`` count as that value.
    """
    floored = np.maximum(batch_ratio, 1.0 / max_ratio)
    return float(0.5 * (np.log1p(reference_ratio).mean() + np.log1p(1.0 / floored).mean()))


def expected_excess_loss(ratio: FloatArray, true_ratio: FloatArray) -> float:
    r"""Return the mean excess of the expected logistic loss over rows from the reference's distribution.

    .. math:: \tfrac12 E_{D_0} \big[ \log(1 + r) + r^* \log(1 + 1/r) - \log(1 + r^*) - r^* \log(1 + 1/r^*) \big]

    This is the Bregman divergence of r from the true ratio (paper, section "Density Ratio Estimation"). No term is
    negative.
    """

    def loss(r: FloatArray) -> FloatArray:
        values: FloatArray = np.log1p(r) + true_ratio * np.log1p(1.0 / r)
        return values

    smallest = np.finfo(np.float64).tiny
    return float(0.5 * (loss(np.maximum(ratio, smallest)) - loss(np.maximum(true_ratio, smallest))).mean())


class RoundScores:
    """Collects the scores of a run.

    Parameters
    ----------
    n_rounds : int
    n_points : int
        Maximum number of blocks of rounds that curves are averaged over.
    """

    def __init__(self, n_rounds: int, n_points: int) -> None:
        self._n_wrong, self._n_rows = np.zeros(n_rounds), np.zeros(n_rounds)
        self._scores = {name: np.full(n_rounds, np.nan) for name in SCORES}
        self._learner_weights: list[tuple[int, dict[int, float]]] = []
        n_blocks = min(n_rounds, n_points)
        # Blocks differ by at most one round.
        self._ends = np.round(np.arange(1, n_blocks + 1) * (n_rounds / n_blocks)).astype(np.int64)

    def add_errors(self, this_round: int, is_wrong: NDArray[np.bool_]) -> None:
        """Count the wrong predictions of a round."""
        self._n_wrong[this_round - 1] = np.count_nonzero(is_wrong)
        self._n_rows[this_round - 1] = len(is_wrong)

    def add(self, this_round: int, **scores: float | None) -> None:
        """Record scores of a round; None means that a score is unknown."""
        for name, score in scores.items():
            if score is not None:
                self._scores[name][this_round - 1] = score

    def add_learner_weights(self, this_round: int, lengths: NDArray[Any], weights: FloatArray) -> None:
        """Record the weight of the learner of every active interval."""
        self._learner_weights.append((this_round, dict(zip(lengths.tolist(), weights.tolist(), strict=True))))

    @property
    def n_rows(self) -> int:
        """Number of predicted rows."""
        return int(self._n_rows.sum())

    @property
    def error(self) -> float:
        """Share of wrong predictions among all rows."""
        return float(self._n_wrong.sum() / self._n_rows.sum())

    def mean(self, name: str) -> float | None:
        """Return the mean of a score over the rounds in which it is known, or None if there are none."""
        known = self._scores[name][~np.isnan(self._scores[name])]
        return float(known.mean()) if len(known) else None

    def total(self, name: str) -> float | None:
        """Return the sum of a score over all rounds; rounds between two scored ones count as their mean."""
        mean = self.mean(name)
        return None if mean is None else mean * len(self._n_rows)

    def curve(self) -> dict[str, list[Any] | None]:
        """Return means over blocks of rounds; ``round`` is the last round of each block."""
        starts = np.concatenate(([0], self._ends[:-1]))
        errors = _ratios(np.add.reduceat(self._n_wrong, starts), np.add.reduceat(self._n_rows, starts))
        curve: dict[str, list[Any] | None] = {"round": self._ends.tolist(), "error": _rounded(errors)}
        for name, scores in self._scores.items():
            is_known = ~np.isnan(scores)
            if not is_known.any():
                curve[name] = None
                continue
            counts = np.add.reduceat(is_known.astype(np.float64), starts)
            sums = np.add.reduceat(np.where(is_known, scores, 0.0), starts)
            curve[name] = _rounded(_ratios(sums, counts))
        return curve

    def learner_weights(self) -> dict[str, list[Any]] | None:
        """Return the mean weight of the learners of each length over blocks of rounds, or None without records."""
        if not self._learner_weights:
            return None
        lengths = sorted({length for _, weights in self._learner_weights for length in weights})
        sums, counts = np.zeros((len(self._ends), len(lengths))), np.zeros((len(self._ends), 1))
        for this_round, weights in self._learner_weights:
            block = int(np.searchsorted(self._ends, this_round))
            sums[block] += [weights.get(length, 0.0) for length in lengths]
            counts[block] += 1
        is_known = counts[:, 0] > 0
        means = sums[is_known] / counts[is_known]
        return {"round": self._ends[is_known].tolist(), "length": lengths, "weight": [_rounded(row) for row in means]}


def _ratios(sums: FloatArray, counts: FloatArray) -> FloatArray:
    """Divide, with NaN where there is nothing to count."""
    ratios: FloatArray = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return ratios


def _rounded(values: FloatArray) -> list[float | None]:
    """Round to six digits, which is enough for a plot."""
    return [None if np.isnan(value) else float(f"{value:.6g}") for value in values.tolist()]


# --- one run ---

FORMAT = 2
N_FRESH_ROWS = 2000


@dataclass(frozen=True)
class MeasurePlan:
    """What to measure.

    Attributes
    ----------
    score_every : int
        Risk, ratio and effective sample size are scored in one round of every so many, drawn at random; errors are
        counted in all rounds.
    n_points : int
        Maximum number of points of a curve.
    has_learner_weights : bool
        Whether to record the weights of the ensemble's learners.
    has_regret : bool
        Whether to record the excess of the expected loss, on new rows from the reference's distribution.
    one_step_every : int
        Contenders that keep nothing from one round to the next run one round of every so many, drawn at random, and
        slow ones fewer still (`Run.runs_one_of`); as many of these are scored as ``score_every`` asks for, or all.
    """

    score_every: int
    n_points: int = 200
    has_learner_weights: bool = False
    has_regret: bool = False
    one_step_every: int = 1


@dataclass(frozen=True)
class Run:
    """A cell of the grid, for one contender and one seed.

    ``parameters`` are set on the contender's model with scikit-learn's ``set_params``; ``protocol`` is one of
    `accous_bench.contenders.PROTOCOLS`.
    """

    spec: str
    problem: Problem
    contender: Contender
    setting: Setting
    measures: MeasurePlan
    parameters: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = PREDICT_FIRST

    @property
    def names(self) -> dict[str, Any]:
        """The fields that identify the run."""
        setting = self.setting
        return {
            "dataset": self.problem.name,
            "shift": setting.shift,
            "batch_size": setting.batch_size,
            "contender": self.contender.name,
            "seed": setting.seed,
            "n_rounds": setting.n_rounds,
            "protocol": self.protocol,
        }

    def model(self) -> Any:
        """Return a new classifier with the run's seed and parameters."""
        model = self.contender(self.setting.seed, self.setting.n_rounds)
        return model.set_params(**self.parameters) if self.parameters else model

    @property
    def runs_one_of(self) -> int:
        """Of how many rounds one is run: 1 unless the contender forgets and the spec leaves rounds out."""
        every = self.measures.one_step_every if self.contender.forgets else 1
        return every * self.contender.every if every > 1 else 1

    def settings(self) -> dict[str, Any]:
        """Return everything, apart from the code, that the numbers depend on."""
        measures = asdict(self.measures)
        if self.contender.forgets:
            measures["one_step_every"] = self.runs_one_of
        else:
            del measures["one_step_every"]
        return {"contender": _parameters(self.model()), "options": dict(self.setting.options), **measures}

    def identity(self) -> str:
        """Return sixteen hexadecimal digits that change with any name or setting.

        Only parameters of a contender that differ from their default count. Finished runs therefore stay finished when
        a new parameter is added. They also stay finished when a default changes: delete the affected rows by hand.
        """
        settings = {**self.settings(), "contender": _text(self.model())}
        text = json.dumps([FORMAT, self.names, settings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def run_one(run: Run) -> dict[str, Any]:
    """Run the contender on the stream and return the record; a failure is recorded, not raised."""
    started, started_on_cpu = time.perf_counter(), time.process_time()
    try:
        with one_blas_thread():
            stream = run.problem.make(run.setting)
            # The first run of a seed makes what its streams share; this does not count as time of the contender.
            started, started_on_cpu = time.perf_counter(), time.process_time()
            outcome = _outcome(run, stream)
    except Exception as error:
        reason = str(error) if isinstance(error, AccousError) else f"{type(error).__name__}: {error} ({_place(error)})"
        outcome = {"status": "failed", "reason": reason, "error": None}
    return {
        "format": FORMAT,
        "run": run.identity(),
        "spec": run.spec,
        **run.names,
        **outcome,
        "seconds": round(time.perf_counter() - started, 3),
        "cpu_seconds": round(time.process_time() - started_on_cpu, 3),
        "settings": {**run.settings(), **outcome.get("settings", {})},
        "versions": versions(),
        "commit": commit(),
        "machine": machine(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _place(error: Exception) -> str:
    """Return the file and line where the error was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}, line {frame.lineno}"


def _outcome(run: Run, stream: Stream) -> dict[str, Any]:
    X, y = stream.reference()
    model = run.model()
    scores = RoundScores(len(stream), run.measures.n_points)
    scorer = _Scorer(stream, run.measures, has_risk=run.contender.has_risk)
    is_run, is_scored = _chosen_rounds(run, len(stream))
    fit_on(stream, run.contender, model)
    started = time.perf_counter()
    for batch in rounds(run.contender, model, stream, run.protocol, is_run):
        scores.add_errors(batch.round, np.asarray(model.predict(batch.X)) != batch.y)
        if is_scored[batch.round - 1]:
            scorer.score(model, batch, scores)
    return {
        "status": "done",
        "reason": None,
        "error": scores.error,
        **{name: scores.mean(name) for name in ("risk", "estimator_loss", "ratio_error", "effective_sample_size")},
        "ratio_regret": scores.total("excess_loss"),
        "n_rows": scores.n_rows,
        "n_reference": len(y),
        "n_features": int(X.shape[1]),
        "n_run": len(stream),
        "n_predicted": int(is_run.sum()),
        "seconds_per_round": (time.perf_counter() - started) / int(is_run.sum()),
        "curve": scores.curve(),
        "learner_weights": scores.learner_weights(),
        "settings": {"stream": repr(stream)},
    }


def _chosen_rounds(run: Run, n_rounds: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which rounds are run, and which of them are scored."""
    measures, seed = run.measures, run.setting.seed
    is_run = np.ones(n_rounds, dtype=bool)
    if run.runs_one_of > 1:
        is_run = scored_rounds(n_rounds, run.runs_one_of, seed)
    # One that runs few rounds is scored in no more of them than the others: a score may cost more than a round.
    every = max(1, measures.score_every // run.runs_one_of)
    is_scored = np.zeros(n_rounds, dtype=bool)
    is_scored[is_run] = scored_rounds(int(is_run.sum()), every, seed)
    return is_run, is_scored


class _Scorer:
    """Scores a model in a round with every measure that the stream and the model allow."""

    def __init__(self, stream: Any, measures: MeasurePlan, *, has_risk: bool) -> None:
        self._stream = stream
        self._measures = measures
        self._knows_ratio = hasattr(stream, "reference_ratio")
        self._fresh_rows = stream.fresh_reference_rows(N_FRESH_ROWS) if measures.has_regret else None
        self._risk: Callable[[Any, float], float] | None = getattr(stream, "risk", None) if has_risk else None

    def score(self, model: Any, batch: Any, scores: RoundScores) -> None:
        scores.add(
            batch.round,
            risk=self._score_risk(model, batch.alpha),
            effective_sample_size=getattr(model, "effective_sample_size_", None),
        )
        ratio = getattr(model, "ratio_", None)
        if ratio is None:
            return
        scores.add(batch.round, estimator_loss=_loss(ratio, batch.X))
        if self._knows_ratio:
            error = np.abs(ratio.reference_ratio_ - self._stream.reference_ratio(batch.alpha)).mean()
            scores.add(batch.round, ratio_error=float(error))
        if self._fresh_rows is not None:
            truth = self._stream.true_ratio(self._fresh_rows, batch.alpha)
            scores.add(batch.round, excess_loss=expected_excess_loss(ratio.predict_ratio(self._fresh_rows), truth))
        if self._measures.has_learner_weights and len(getattr(ratio, "learner_weights_", ())):
            scores.add_learner_weights(batch.round, ratio.learner_lengths_, ratio.learner_weights_)

    def _score_risk(self, model: Any, alpha: float) -> float | None:
        if self._risk is None:
            return None
        try:
            return self._risk(getattr(model, "estimator_", model), alpha)
        except DataError:  # the closed form is for linear models
            self._risk = None
            return None


def _loss(ratio: Any, X: Any) -> float | None:
    """Return the observed loss of the ratio in use; `score_loss` of a ratio with a pool is that of its theta alone."""
    if getattr(ratio, "is_pooled", False):
        return observed_loss(ratio.reference_ratio_, ratio.predict_ratio(X), float(ratio.max_ratio))
    try:
        return float(ratio.score_loss(X))
    except ParameterError:  # KMM without a ridge has weights for the reference rows only
        return None


def _parameters(model: Any) -> dict[str, str]:
    """Return every parameter of a model as text, including nested ones."""
    if not hasattr(model, "get_params"):
        return {"": _text(model)}
    return {"": type(model).__name__, **{name: _text(value) for name, value in sorted(model.get_params().items())}}


def _text(value: Any) -> str:
    """Return the value as text, without the memory address that some objects show."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


# --- records: one line of JSON per run, appended on completion ---


def repair(file: Path) -> int:
    """Remove an incomplete last line that a killed process left; return the number of bytes removed.

    Parameters
    ----------
    file : Path
        File with lines of JSON; it need not exist.
    """
    if not file.is_file():
        return 0
    content = file.read_bytes()
    torn = content.rpartition(b"\n")[2]
    if torn:
        os.truncate(file, len(content) - len(torn))
    return len(torn)


def append_row(file: Path, row: dict[str, Any]) -> None:
    """Append a record, and return once it is on disk."""
    line = json.dumps(row, allow_nan=False) + "\n"
    with file.open("a", encoding="utf-8") as stream:
        stream.write(line)
        stream.flush()
        os.fsync(stream.fileno())


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the last record of every run in a file or a folder's ``*.jsonl`` files; skip an incomplete last line.

    Raises
    ------
    DataError
        If any other line is not a record; the message names the line.
    """
    files = [folder] if folder.is_file() else sorted(folder.glob("*.jsonl"))
    return list({row["run"]: row for file in files for row in _rows_of(file)}.values())


def _rows_of(file: Path) -> list[dict[str, Any]]:
    lines = file.read_bytes().split(b"\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        if _is_record(line):
            rows.append(json.loads(line))
        elif line.strip() and number < len(lines):
            raise DataError(f"{file}, line {number}: not a record of a run; fix the line or remove it.")
    return rows


def _is_record(line: bytes) -> bool:
    try:
        row = json.loads(line)
    except ValueError:
        return False
    return isinstance(row, dict) and {"run", "status"} <= row.keys()


# --- a grid of runs ---


class WorkerDiedError(AccousError):
    """A worker process died during a run, for example because memory ran out."""


def unfinished(runs: Sequence[Run], file: Path) -> list[Run]:
    """Return the runs that are not finished in the file, failed ones included; remove an incomplete last line."""
    repair(file)
    rows = read_rows(file) if file.is_file() else []
    finished = {row["run"] for row in rows if row["status"] == "done"}
    return [run for run in runs if run.identity() not in finished]


def run_grid(
    runs: Sequence[Run], file: Path, *, n_jobs: int = 1, on_row: Callable[[dict[str, Any]], None] = lambda _: None
) -> None:
    """Execute runs and append their records to a file, in the order in which they finish.

    The numbers do not depend on ``n_jobs``: every run has its own seed and one BLAS thread.

    Parameters
    ----------
    runs : sequence of Run
    file : Path
    n_jobs : int, default=1
        Number of processes on this machine.
    on_row : callable, optional
        Called with each record after it has been written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    workers = Parallel(n_jobs, backend="loky", return_as="generator_unordered", batch_size=1)
    for row in _until_a_worker_dies(workers(delayed(run_one)(run) for run in runs)):
        append_row(file, row)
        on_row(row)


def _until_a_worker_dies(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        yield from rows
    except TerminatedWorkerError as error:
        raise WorkerDiedError(
            "A worker process was killed, perhaps because memory ran out. Finished runs are kept: run the "
            "same command again with fewer --jobs."
        ) from error
