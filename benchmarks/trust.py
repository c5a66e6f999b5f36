"""What the model tells about itself beside the truth: the figures of docs/trust.md.

Run ``python -m benchmarks.trust`` for all parts, or name some of them: harm (what the safeguards save and cost),
insights (label-free risk, prediction sets, audits) and drift (events beside ADWIN). Errors are exact: in closed form on
Gaussian streams, on all rows of both pools on tables. Each part replaces its rows in ``benchmarks/results/trust.json``.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from accous import AdaptiveClassifier
from accous.diagnostics.conformal import conformal_sets
from accous.streams import ConstantShift, GaussianStream, Shift
from accous.threads import one_blas_thread
from benchmarks.data import SHIFTS, FloatArray, GaussianProblem, Problem, TableProblem, data_folder, mixed
from benchmarks.pages import keep_part, markdown

Row = dict[str, Any]
TABLE_NAMES = ("diabetes", "breast", "acs_employment", "powersupply")


def means(found: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of every measure."""
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


# --- harm: what the safeguards save and what it costs --------------------------------------------------------------

ROUNDS_BETWEEN_SCORES = 5
ADAPTATIONS = ("always", "auto")


@dataclass(frozen=True)
class HarmCase:
    """A kind of stream; ``data`` is "gauss" or the name of a table."""

    data: str
    shift: str
    n_reference: int
    batch_size: int
    n_rounds: int

    def problem(self, seed: int) -> Problem:
        """Return the stream of one split."""
        sizes = {"n_reference": self.n_reference, "batch_size": self.batch_size, "n_rounds": self.n_rounds}
        if self.data == "gauss":
            return GaussianProblem(self.shift, n_features=12, seed=seed, **sizes)
        return TableProblem(self.data, self.shift, seed=seed, **sizes)


def measure_excess(case: HarmCase, seed: int) -> dict[str, float]:
    """Return the mean error above that of the fixed model, in points, without and with the safeguards."""
    problem = case.problem(seed)
    models = {each: AdaptiveClassifier(standardize=False, adaptation=each) for each in ADAPTATIONS}
    for model in models.values():
        model.fit(problem.X, problem.y)
    of_fixed = problem.component_risks(models["always"].estimator_)
    excess: dict[str, list[float]] = {name: [] for name in ADAPTATIONS}
    with one_blas_thread():
        for number, (batch, alpha) in enumerate(zip(problem.batches(), problem.alphas, strict=True), start=1):
            for name, model in models.items():
                if number % ROUNDS_BETWEEN_SCORES == 0:
                    of_model = problem.component_risks(model.estimator_)
                    excess[name].append(mixed(of_model, alpha) - mixed(of_fixed, alpha))
                model.adapt(batch)
    return {name: 100.0 * float(np.mean(values)) for name, values in excess.items()}


def harm_row(case: HarmCase, found: list[dict[str, float]]) -> Row:
    """Return means, standard errors and the 90 % quantile over splits."""
    row: Row = dict(vars(case)) | {"n_splits": len(found)}
    for name in ADAPTATIONS:
        values = np.array([one[name] for one in found])
        row[name] = float(values.mean())
        row[f"{name}_standard_error"] = float(values.std(ddof=1) / np.sqrt(len(values)))
        row[f"{name}_quantile_90"] = float(np.quantile(values, 0.9))
    row["share_of_gain_lost"] = (row["auto"] - row["always"]) / -row["always"] if row["always"] < -0.5 else None
    return row


def harm(options: argparse.Namespace) -> list[Row]:
    """Measure the excess over the fixed model, without and with the safeguards."""
    sizes = {"batch_size": 1, "n_rounds": options.rounds}
    cases = [HarmCase("gauss", shift, n, **sizes) for n in (1000, 300) for shift in SHIFTS]
    if data_folder() is not None:
        cases += [HarmCase(table, shift, 1000, **sizes) for table in TABLE_NAMES for shift in ("none", "Squ")]
    splits = range(options.first_split, options.first_split + options.splits)
    found = run(measure_excess, list(itertools.product(cases, splits)), options.jobs)
    return [harm_row(case, [found[case, split] for split in splits]) for case in cases]


# --- insights: risks, sets and audits over many independent references --------------------------------------------

FIRST_ROUND, TIMES_PER_REFERENCE = 100, 4
FRESH_ROWS, AUDITED_ROWS, FLIPPED_SHARES = 1000, 200, (0.2, 0.4)
LEVEL = 0.9


@dataclass(frozen=True)
class Setting:
    """A kind of Gaussian stream."""

    shift: str
    n_reference: int = 1000
    batch_size: int = 1
    n_rounds: int = 400
    n_features: int = 12


def measure_insights(setting: Setting, seed: int) -> dict[str, float]:
    """Compare estimates with the exact error of a round and with fresh labelled rows; return means of one stream."""
    sizes = {name: size for name, size in vars(setting).items() if name != "shift"}
    stream = GaussianStream(SHIFTS[setting.shift], random_state=seed, **sizes)
    rounds, found = np.arange(FIRST_ROUND, setting.n_rounds), []
    times = set(np.random.default_rng([seed, 7]).choice(rounds, TIMES_PER_REFERENCE, replace=False).tolist())
    with one_blas_thread():
        model = AdaptiveClassifier(standardize=False).fit(*stream.reference())
        for batch in stream:
            if batch.round in times:
                of_sets = _sets(model, stream, batch.alpha, seed + 10_000 * batch.round)
                found.append(_risks(model, stream, batch.alpha) | of_sets)
            model.adapt(batch.X)
    return means(found)


def _risks(model: Any, problem: Any, alpha: float) -> dict[str, float]:
    risk, found = model.sampling_risk(), {}
    for name, predictor in (("adapted", model.estimator_), ("fixed", model.fixed_.estimator)):
        true = mixed(problem.component_risks(predictor), alpha)
        estimate, low, high = (getattr(risk, name + end) for end in ("", "_low", "_high"))
        found[f"{name}_covered"] = float(low <= true <= high)
        found[f"{name}_bias"] = estimate - true
        found[f"{name}_error"] = abs(estimate - true)
        found[f"{name}_half_width"] = 0.5 * (high - low)
    return found


def _sets(model: Any, stream: GaussianStream, alpha: float, seed: int) -> dict[str, float]:
    fresh = replace(stream, shift=ConstantShift(alpha), n_rounds=1, batch_size=FRESH_ROWS, random_state=seed)
    batch = next(iter(fresh))
    X, y, rows = batch.X, batch.y, np.arange(FRESH_ROWS)
    weighted, plain = model.predict_set(X, alpha=1.0 - LEVEL), _unweighted_sets(model, X)
    return {
        "set_covered": float(weighted[rows, y].mean()),
        "set_size": float(weighted.sum(axis=1).mean()),
        "plain_set_covered": float(plain[rows, y].mean()),
        "plain_set_size": float(plain.sum(axis=1).mean()),
        **_audits(model, X[:AUDITED_ROWS], y[:AUDITED_ROWS], seed),
    }


def _unweighted_sets(model: Any, X: Any) -> Any:
    """Return conformal sets of the fixed model, with the same weight for every reference row."""
    weights = model.base_weight_
    probabilities = model.erm_.cross_fitted_probabilities(weights, model.fixed_.estimator)
    scores = 1.0 - probabilities[np.arange(len(weights)), model.labels_]
    return conformal_sets(scores, weights, 1.0 - model.fixed_.estimator.predict_proba(X), np.ones(len(X)), 1.0 - LEVEL)


def _audits(model: Any, X: Any, y: Any, seed: int) -> dict[str, float]:
    """Return false alarms on true labels, and alarms when some labels are flipped."""
    same = model.audit(X, y)
    found = {"audit_below_5": float(same.p_value < 0.05), "audit_false_alarm": float(same.concept_changed)}
    uniforms = np.random.default_rng(seed).random(len(y))
    for share in FLIPPED_SHARES:
        flipped = model.audit(X, np.where(uniforms < share, 1 - y, y))
        found[f"audit_alarm_{100 * share:.0f}_flipped"] = float(flipped.concept_changed)
    return found


def insight_row(setting: Setting, found: list[dict[str, float]]) -> Row:
    """Return means and standard deviations over references; each reference counts once."""
    deviations = {f"{name}_sd": float(np.std([one[name] for one in found])) for name in found[0]}
    return dict(vars(setting)) | {"n_references": len(found)} | means(found) | deviations


def insights(options: argparse.Namespace) -> list[Row]:
    """Measure the coverage of risks and sets, and the level and power of audits."""
    n_few = max(2, options.references // 3)
    counts = {Setting(shift): options.references for shift in SHIFTS}
    counts |= {Setting("Squ", n_reference=n): n_few for n in (300, 3000)} | {Setting("Squ", batch_size=5): n_few}
    cases = [(setting, seed) for setting, count in counts.items() for seed in range(count)]
    found = run(measure_insights, cases, options.jobs)
    return [insight_row(setting, [found[setting, seed] for seed in range(n)]) for setting, n in counts.items()]


# --- drift: false alarms on streams that stand still, and delays after jumps --------------------------------------

JUMP_ROUND, N_ROUNDS = 300, 900


@dataclass(frozen=True)
class Jump(Shift):
    """Alpha jumps once."""

    before: float = 0.9
    after: float = 0.1
    at: int = JUMP_ROUND

    def _alphas(self, rounds: NDArray[np.int64], generator: np.random.Generator) -> FloatArray:
        return np.where(rounds <= self.at, self.before, self.after)


JUMPS = {"no jump": Jump(0.9, 0.9), **{f"0.9 to {after}": Jump(0.9, after) for after in (0.1, 0.5, 0.7)}}


def accous_alarms(stream: GaussianStream) -> list[int]:
    """Return the rounds in which the distribution shifted."""
    model = AdaptiveClassifier(standardize=False).fit(*stream.reference())
    for batch in stream:
        model.adapt(batch.X)
    return [event.round for event in model.drift_events_ if event.kind == "shift"]


def adwin_alarms(stream: GaussianStream) -> list[int]:
    """Return the rounds in which river's ADWIN, one per column with its delta split, found a change; all restart."""
    from river import drift

    adwin: Any = drift.ADWIN  # river has no types

    def fresh() -> list[Any]:
        return [adwin(delta=0.002 / stream.n_features) for _ in range(stream.n_features)]

    def feed(x: FloatArray) -> bool:
        for detector, value in zip(detectors, x.tolist(), strict=True):
            detector.update(value)
        return any(detector.drift_detected for detector in detectors)

    detectors, alarms = fresh(), []
    for x in stream.reference()[0]:
        feed(x)
    for batch in stream:
        if sum(feed(x) for x in batch.X):
            alarms.append(batch.round)
            detectors = fresh()
    return alarms


DETECTORS: dict[str, Callable[[GaussianStream], list[int]]] = {"accous": accous_alarms}
if find_spec("river") is not None:
    DETECTORS["ADWIN (river)"] = adwin_alarms


def measure_alarms(detector: str, case: str, batch_size: int, seed: int) -> list[int]:
    """Return the rounds in which a detector raised an alarm."""
    with one_blas_thread():
        return DETECTORS[detector](
            GaussianStream(JUMPS[case], n_rounds=N_ROUNDS, batch_size=batch_size, random_state=seed)
        )


def drift_row(detector: str, case: str, batch_size: int, n_references: int) -> Row:
    """Return false alarms per 1,000 rounds, the share of jumps found, and the delays."""
    has_jump = case != "no jump"
    found = [measure_alarms(detector, case, batch_size, seed) for seed in range(n_references)]
    n_quiet = JUMP_ROUND if has_jump else N_ROUNDS
    n_false = [sum(alarm <= n_quiet for alarm in alarms) for alarms in found]
    later = [[alarm - JUMP_ROUND for alarm in alarms if alarm > JUMP_ROUND] for alarms in found] if has_jump else []
    delays = [alarms[0] for alarms in later if alarms]
    return {
        "detector": detector,
        "case": case,
        "batch_size": batch_size,
        "n_references": n_references,
        "false_alarms_per_1000": 1000.0 * sum(n_false) / (n_quiet * n_references),
        "streams_with_false_alarms": float(np.mean([n > 0 for n in n_false])),
        "found": len(delays) / n_references if has_jump else None,
        "median_delay": float(np.median(delays)) if delays else None,
        "delay_90": float(np.quantile(delays, 0.9)) if delays else None,
        "alarms_after_jump": float(np.mean([len(alarms) for alarms in later])) if has_jump else None,
    }


def drift(options: argparse.Namespace) -> list[Row]:
    """Measure false alarms and delays."""
    n_references = max(2, options.references // 5)
    cases = [(detector, case, 1, n_references) for detector in DETECTORS for case in JUMPS]
    return list(run(drift_row, cases, options.jobs).values())


# --- main -------------------------------------------------------------------------------------------------------

PARTS = {"harm": harm, "insights": insights, "drift": drift}


def run(measure: Callable[..., Any], cases: list[tuple[Any, ...]], n_jobs: int) -> dict[Any, Any]:
    """Measure all cases, in several processes."""
    return dict(zip(cases, Parallel(n_jobs=n_jobs)(delayed(measure)(*case) for case in cases), strict=True))


def print_rows(rows: list[Row]) -> None:
    """Print a table for all rows with the same measures; a line per measure, because they do not fit side by side."""
    for names, same in itertools.groupby(rows, key=tuple):
        group = list(same)
        lines = [(name.replace("_", " "), *(_text(row[name]) for row in group)) for name in names]
        print(markdown(("", *map(str, range(len(group)))), lines))


def _text(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else "" if value is None else str(value)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="parts to measure (default: all)")
    parser.add_argument("--references", type=int, default=100, help="independent references per shift (default 100)")
    parser.add_argument("--splits", type=int, default=20, help="splits per stream of the part harm (default 20)")
    parser.add_argument("--first-split", type=int, default=0, help="seed of the first split of harm (default 0)")
    parser.add_argument("--rounds", type=int, default=800, help="rounds of each stream of the part harm (default 800)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    options = parser.parse_args()
    for part in options.parts or PARTS:
        rows = PARTS[part](options)
        print(f"\n{part}\n")
        print_rows(rows)
        keep_part("trust", part, rows)


if __name__ == "__main__":
    main()
