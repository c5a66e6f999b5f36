"""What the model tells about itself beside the truth: the figures of docs/trust.md.

Run ``python -m benchmarks.trust`` for all parts, or name some of them: harm (what the fallback saves and costs),
insights (label-free risk, prediction sets, audits), tables (the risk on tables), drift (events beside ADWIN and an MMD
test) and verdicts. Errors are exact: in closed form on Gaussian streams, on all rows of both pools on tables. Each part
replaces its rows in ``benchmarks/results/trust.json``.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from accous import AdaptiveClassifier
from accous.blas import one_blas_thread
from accous.diagnostics.sets import conformal_sets
from accous.streams import ConstantShift, GaussianStream
from accous.streams.shifts import Shift
from benchmarks.data import SHIFTS, FloatArray, GaussianProblem, Problem, TableProblem, data_folder, mixed
from benchmarks.pages import keep_part, markdown

Row = dict[str, Any]
TABLE_NAMES = ("diabetes", "breast", "acs_employment", "powersupply")


def means(found: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of every measure."""
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


# --- harm: what the fallback saves and what it costs --------------------------------------------------------------

ROUNDS_BETWEEN_SCORES = 5
FALLBACKS = ("none", "auto")


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
    """Return the mean error above that of the fixed model, in points, without and with the fallback."""
    problem = case.problem(seed)
    models = {each: AdaptiveClassifier(standardize=False, fallback=each) for each in FALLBACKS}
    for model in models.values():
        model.fit(problem.X, problem.y)
    of_fixed = problem.component_risks(models["none"].estimator_)
    excess: dict[str, list[float]] = {name: [] for name in FALLBACKS}
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
    for name in FALLBACKS:
        values = np.array([one[name] for one in found])
        row[name] = float(values.mean())
        row[f"{name}_standard_error"] = float(values.std(ddof=1) / np.sqrt(len(values)))
        row[f"{name}_quantile_90"] = float(np.quantile(values, 0.9))
    row["share_of_gain_lost"] = (row["auto"] - row["none"]) / -row["none"] if row["none"] < -0.5 else None
    return row


def harm(options: argparse.Namespace) -> list[Row]:
    """Measure the excess over the fixed model, without and with the fallback."""
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


def _times(seed: int, n_rounds: int) -> set[int]:
    """Return a few random rounds to look at."""
    rng = np.random.default_rng([seed, 7])
    chosen: list[int] = rng.choice(np.arange(FIRST_ROUND, n_rounds), TIMES_PER_REFERENCE, replace=False).tolist()
    return set(chosen)


def measure_insights(setting: Setting, seed: int) -> dict[str, float]:
    """Compare estimates with the exact error of a round and with fresh labelled rows; return means of one stream."""
    sizes = {name: size for name, size in vars(setting).items() if name != "shift"}
    stream = GaussianStream(SHIFTS[setting.shift], random_state=seed, **sizes)
    times, found = _times(seed, setting.n_rounds), []
    with one_blas_thread():
        model = AdaptiveClassifier(standardize=False).fit(*stream.reference())
        for batch in stream:
            if batch.round in times:
                of_sets = _sets(model, stream, batch.alpha, seed + 10_000 * batch.round)
                found.append(_risks(model, stream, batch.alpha) | of_sets)
            model.adapt(batch.X)
    return means(found)


def measure_table_risks(table: str, shift: str, n_rounds: int, seed: int) -> dict[str, float]:
    """Return the same for the risks alone, on two pools of a table; the truth is the error outside the reference."""
    problem = TableProblem(table, shift, n_reference=1000, batch_size=1, n_rounds=n_rounds, seed=seed)
    times, found = _times(seed, n_rounds), []
    with one_blas_thread():
        model = AdaptiveClassifier(standardize=False).fit(problem.X, problem.y)
        for number, (batch, alpha) in enumerate(zip(problem.batches(), problem.alphas, strict=True)):
            if number in times:
                found.append(_risks(model, problem, float(alpha)))
            model.adapt(batch)
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


def tables(options: argparse.Namespace) -> list[Row]:
    """Measure the coverage of risks on tables."""
    groups = list(itertools.product(TABLE_NAMES, ("none", "Squ"))) if data_folder() else []
    seeds = range(max(2, options.references // 5))
    found = run(measure_table_risks, [(*group, 300, seed) for group in groups for seed in seeds], options.jobs)
    return [
        {"table": table, "shift": shift, "n_references": len(seeds)}
        | means([found[table, shift, 300, seed] for seed in seeds])
        for table, shift in groups
    ]


# --- drift: false alarms on streams that stand still, and delays after jumps --------------------------------------

JUMP_ROUND, N_ROUNDS = 300, 900
MMD_ROWS, MMD_REFERENCE, MMD_EVERY, MMD_PERMUTATIONS, MMD_LEVEL = 64, 256, 32, 200, 0.01


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


def mmd_alarms(stream: GaussianStream) -> list[int]:
    """Return the rounds in which an MMD test of the latest rows rejects, only the first of each run of rejections."""
    rng = np.random.default_rng(0)
    reference = stream.reference()[0][:MMD_REFERENCE]
    recent: list[FloatArray] = []
    alarms, was_rejected = [], False
    for batch in stream:
        recent = [*recent, *batch.X][-MMD_ROWS:]
        if batch.round % MMD_EVERY or len(recent) < MMD_ROWS:
            continue
        is_rejected = _mmd_p_value(reference, np.array(recent), rng) <= MMD_LEVEL
        if is_rejected and not was_rejected:
            alarms.append(batch.round)
        was_rejected = is_rejected
    return alarms


def _mmd_p_value(reference: FloatArray, rows: FloatArray, rng: np.random.Generator) -> float:
    """Return the p value by permutations, with a Gaussian kernel of median width."""
    joint = np.concatenate((reference, rows))
    squares = ((joint[:, None, :] - joint[None, :, :]) ** 2).sum(axis=2)
    kernel = np.exp(-squares / np.median(squares[squares > 0.0]))
    # Without the diagonal, the two unbiased means differ from these only by constant factors.
    np.fill_diagonal(kernel, 0.0)
    signs = np.concatenate((np.full(len(reference), -1.0 / len(reference)), np.full(len(rows), 1.0 / len(rows))))
    observed = signs @ kernel @ signs
    shuffled = (rng.permutation(signs) for _ in range(MMD_PERMUTATIONS))
    return (1 + sum(float(each @ kernel @ each) >= observed for each in shuffled)) / (1 + MMD_PERMUTATIONS)


DETECTORS: dict[str, Callable[[GaussianStream], list[int]]] = {"accous": accous_alarms, "MMD test": mmd_alarms}
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


# --- verdicts: how often the adapted model is worse than the fixed one, by evidence and verdict -------------------

SIZES, VERDICT_SHIFTS, LOOKS = (100, 200, 300, 500, 1000, 2000), ("Lin", "Squ", "Sin"), (120, 160, 200, 240, 280)
ERROR_BINS = (0.0, 0.02, 0.04, 0.06, 0.08, 0.12, np.inf)
DISTANCES = (0.0, 0.5, 1.0, 2.0, 4.0)
WORDS = ("not verified", "thin", "no overlap")


def measure_verdicts(shift: str, n_reference: int, seed: int) -> list[tuple[str, float, float, float]]:
    """Return verdict, standard error of "adapted minus fixed", effective rows and true difference at a few rounds.

    The veto is off, so that the harm it would prevent is visible.
    """
    stream = GaussianStream(SHIFTS[shift], n_rounds=max(LOOKS) + 20, n_reference=n_reference, random_state=seed)
    model = AdaptiveClassifier(standardize=False, fallback="none").fit(*stream.reference())
    found = []
    with one_blas_thread():
        for batch in stream:
            if batch.round in LOOKS:
                trust = model.trust_
                adapted, fixed = (stream.risk(one, batch.alpha) for one in (model.estimator_, model.fixed_.estimator))
                error = trust.excess_standard_error
                found.append((_word(trust.verdict), error, trust.effective_sample_size, adapted - fixed))
            model.adapt(batch.X)
    return found


def _word(verdict: str) -> str:
    """Return the verdict, or "not verified" for those that do not come from the weights or the inputs."""
    return verdict if verdict in WORDS else "not verified"


def verdict_rows(found: list[tuple[str, float, float, float]]) -> Iterator[Row]:
    """Yield the harm by standard error and by verdict."""
    groups = {
        f"standard error {100 * low:g} to {100 * high:g} points": [one for one in found if low < one[1] <= high]
        for low, high in itertools.pairwise(ERROR_BINS)
    }
    groups |= {f'verdict "{word}"': [one for one in found if one[0] == word] for word in WORDS}
    for name, group in groups.items():
        row: Row = {"group": name, "n": len(group)}
        if group:
            excess = np.array([one[3] for one in group])
            row["mean_excess"] = 100.0 * float(excess.mean())
            row["share_worse"] = float(np.mean(excess > 0.0))
            row["share_worse_by_2_points"] = float(np.mean(excess > 0.02))
            row["median_effective_rows"] = float(np.median([one[2] for one in group]))
        yield row


def away_row(distance: float, n_references: int) -> Row:
    """Return verdicts after 100 rounds of rows that are ``distance`` away from the reference in every column."""
    words = []
    for seed in range(n_references):
        stream = GaussianStream(SHIFTS["none"], n_rounds=100, n_reference=500, random_state=seed)
        model = AdaptiveClassifier(standardize=False).fit(*stream.reference())
        for batch in stream:
            model.adapt(batch.X + distance)
        words.append(_word(model.trust_.verdict))
    shares = {word: words.count(word) / n_references for word in WORDS}
    return {"distance": distance, "n_references": n_references, **shares}


def verdicts(options: argparse.Namespace) -> list[Row]:
    """Measure harm by evidence and verdict."""
    n_references = max(2, options.references // 12)
    found = run(measure_verdicts, list(itertools.product(VERDICT_SHIFTS, SIZES, range(n_references))), options.jobs)
    away = run(away_row, [(distance, n_references) for distance in DISTANCES], options.jobs)
    return [*verdict_rows(list(itertools.chain.from_iterable(found.values()))), *away.values()]


# --- main -------------------------------------------------------------------------------------------------------

PARTS = {"harm": harm, "insights": insights, "tables": tables, "drift": drift, "verdicts": verdicts}


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
