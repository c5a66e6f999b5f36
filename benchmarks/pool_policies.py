"""Which policy keeps the ensemble and the pool from harm on real streams: ``python -m benchmarks.pool_policies``.

Every stream is replayed once by both (`benchmarks.pool_replays`), with 1,000 reference rows and batches of ten. A
policy says in each round which predictor makes the predictions: the fixed or the adapted one, or that of the ensemble
in place of the pool's. ``--counters`` repeats four streams with a column that grows with the rows among the features.
Every stream is written to ``benchmarks/results/pool.json`` as soon as it is finished. Needs ``ACCOUS_DATA``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from accous.arrays import FloatArray
from accous.diagnostics.risk import LARGEST_UNEXPLAINED
from accous.model.safeguards import FREE, LENIENT, OFF, STRICT
from benchmarks.limit import FIX
from benchmarks.pool_replays import COUNTERS, NAMES, Replay, replay
from benchmarks.real_stream_tables import STREAMS
from benchmarks.record import keep_row

__all__ = ["POLICIES", "main", "policy_table", "scores", "stream_table"]

Policy = Callable[[Replay, str], FloatArray]
GUARDS = {guard.name: guard for guard in (FREE, LENIENT, STRICT, OFF)}
ROUNDS_PER_BLOCK = 50
LARGEST_OUTSIDE = 0.3


def always(one: Replay, name: str) -> FloatArray:
    """Return the wrong predictions of the adapted predictor."""
    return one.arms[name].wrong


def veto(standard_errors: float) -> Policy:
    """Adapt unless the adapted predictor is worse by so many standard errors on the weighted reference."""

    def wrong(one: Replay, name: str) -> FloatArray:
        of = one.arms[name]
        return np.where(of.excess > standard_errors * of.standard_error, one.fixed, of.wrong)

    return wrong


def own_gain(one: Replay, name: str) -> FloatArray:
    """Adapt only while the adapted predictor is better on the weighted reference."""
    of = one.arms[name]
    return np.where(of.excess < 0.0, of.wrong, one.fixed)


def explained(one: Replay, name: str) -> FloatArray:
    """The same, and never where the backtest missed the truth by four points beyond what sampling explains."""
    return own_gain(one, name) if one.arms[name].unexplained < LARGEST_UNEXPLAINED else one.fixed


def covered(one: Replay, name: str) -> FloatArray:
    """The veto, and the fixed predictor while three tenths of the recent rows lie outside the reference."""
    return np.where(one.outside > LARGEST_OUTSIDE, one.fixed, WITHOUT_ORDER(one, name))


def with_order(one: Replay, name: str) -> FloatArray:
    """The guard that follows from the backtest."""
    of, guard = one.arms[name], GUARDS[one.arms[name].guard]
    pairs = zip(of.excess.tolist(), of.standard_error.tolist(), strict=True)
    is_held = np.array([guard.holds(excess, error) for excess, error in pairs])
    return np.where(is_held, one.fixed, of.wrong)


def milder(standard_errors: float, yardstick: int) -> Policy:
    """The veto, with the ensemble in place of the pool where it is better by so many standard errors."""

    def wrong(one: Replay, name: str) -> FloatArray:
        is_milder = (one.between[:, yardstick] > standard_errors) | (name == "ensemble")
        return np.where(is_milder, WITHOUT_ORDER(one, "ensemble"), WITHOUT_ORDER(one, "pool"))

    return wrong


WITHOUT_ORDER = veto(1.5)
POLICIES: dict[str, Policy] = {
    "always adapt": always,
    "veto at 1.5 standard errors (default without an order)": WITHOUT_ORDER,
    "veto at 0.5 standard errors": veto(0.5),
    "only where its own gain is positive": own_gain,
    "the same, and off where the backtest missed by 4 points": explained,
    "veto, and off while 30 % of the rows are outside": covered,
    "the guard of the backtest (default with an order)": with_order,
    "veto, ensemble if better by both weights": milder(0.0, 0),
    "veto, ensemble if better by 1 standard error": milder(1.0, 0),
    "veto, ensemble if better by the pool's weights": milder(0.0, 1),
    "the same, by 1 - p(y) in place of errors": milder(0.0, 2),
}


def scores(one: Replay) -> dict[str, Any]:
    """Return errors in % by arm and policy, and the standard error of pool minus ensemble over blocks of 500 rows."""
    total = one.n_rows.sum()
    errors = {FIX: 100.0 * float(one.fixed.sum() / total)}
    spread = {}
    for policy, wrong in POLICIES.items():
        found = {name: wrong(one, name) for name in NAMES}
        errors |= {f"{name}: {policy}": 100.0 * float(each.sum() / total) for name, each in found.items()}
        spread[policy] = _standard_error(found["pool"] - found["ensemble"], one.n_rows)
    return {"errors": errors, "standard_errors": spread}


def _standard_error(differences: FloatArray, n_rows: FloatArray) -> float:
    """Return the standard error of a difference of errors in points; rows of one block depend on each other."""
    starts = np.arange(0, len(n_rows), ROUNDS_PER_BLOCK)
    blocks = 100.0 * np.add.reduceat(differences, starts) / np.add.reduceat(n_rows, starts)
    return float(blocks.std(ddof=1) / np.sqrt(len(blocks))) if len(blocks) > 1 else float("nan")


def policy_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table: for each policy, points above and below FIX summed over streams, and the pool's worst."""
    lines = [
        "| | ensemble: harm / gain / worst | pool: harm / gain / worst | pool minus ensemble: mean / worst |",
        "|---|---:|---:|---:|",
    ]
    for policy in POLICIES:
        by_arm = {
            name: np.array([row["errors"][f"{name}: {policy}"] - row["errors"][FIX] for row in rows]) for name in NAMES
        }
        difference = by_arm["pool"] - by_arm["ensemble"]
        cells = [
            f"{each.clip(0).sum():.1f} / {each.clip(max=0).sum():.1f} / {each.max():+.1f}" for each in by_arm.values()
        ]
        lines.append(f"| {policy} | {' | '.join(cells)} | {difference.mean():+.2f} / {difference.max():+.2f} |")
    return "\n".join(lines)


def stream_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table: the errors of each stream in %, without and with an order, and pool minus ensemble."""
    orders = {"": "veto at 1.5 standard errors (default without an order)"}
    orders[", order known"] = "the guard of the backtest (default with an order)"
    heads = [f"{head}{order}" for order in orders for head in (*NAMES, "difference")]
    lines = [f"| | {FIX} | {' | '.join(heads)} |", "|---|" + "---:|" * (1 + len(heads))]
    for row in sorted(rows, key=lambda row: str(row["case"])):
        cells = [f"{row['errors'][FIX]:.2f}"]
        for policy in orders.values():
            errors = [row["errors"][f"{name}: {policy}"] for name in NAMES]
            cells += [f"{each:.2f}" for each in errors]
            cells.append(f"{errors[1] - errors[0]:+.2f} ± {row['standard_errors'][policy]:.2f}")
        lines.append(f"| {row['case']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Replay, score, keep and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--streams", nargs="*", choices=list(STREAMS), default=list(STREAMS), help="streams (default: all)"
    )
    parser.add_argument("--references", type=int, default=1000, help="reference rows (default 1000)")
    parser.add_argument("--counters", action="store_true", help="only streams with a counter, which stays a feature")
    options = parser.parse_args()
    rows = []
    for stream in options.streams:
        if options.counters and stream not in COUNTERS:
            continue
        keeps = COUNTERS[stream] if options.counters else ()
        settings = {"case": stream, "n_reference": options.references, "keeps": list(keeps)}
        print(stream, flush=True)
        rows.append(settings | scores(replay(stream, options.references, keeps=keeps)))
        keep_row("pool", "policies", rows[-1])
    print(f"\npoints above FIX, summed over {len(rows)} streams\n\n{policy_table(rows)}")


if __name__ == "__main__":
    main()
