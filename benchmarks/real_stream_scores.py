"""Scores of claims on real streams: coverage of intervals, answers that were right, harm over the fixed model."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.real_stream_tables import STREAMS

__all__ = ["print_scores"]

_CLOSE = 0.05
_WIDE = 0.25


def print_scores(results: list[dict[str, Any] | None]) -> None:
    """Print a line per stream, and the means over streams that constants were chosen on, and over the others."""
    known = [result for result in results if result is not None]
    for result in sorted(known, key=lambda result: (result["n_reference"], result["batch_size"], result["stream"])):
        print(_line(result))
    for is_chosen in (True, False):
        part = [result for result in known if STREAMS[result["stream"]].is_chosen == is_chosen]
        for n_reference in sorted({result["n_reference"] for result in part}):
            of_size = [result for result in part if result["n_reference"] == n_reference]
            print(_summary(f"{'chosen' if is_chosen else 'checked'}, {n_reference:,} rows", of_size))
    print(_summary("all", known))


def _line(result: dict[str, Any]) -> str:
    errors = {name: 100.0 * error for name, error in result["errors"].items()}
    covered, width = _coverage(result["looks"], "low", "high")
    before, _ = _coverage(result["looks"], "sampling_low", "sampling_high")
    estimate = 100.0 * np.mean([look["estimate"] for look in result["looks"]])
    return (
        f"{result['stream']:22} {result['n_reference']:5} {result['batch_size']:3} {result['guard']:8}"
        f" fixed {errors['fixed']:5.1f} used {errors['used']:5.1f} adapted {errors['adapted']:5.1f}"
        f" estimate {estimate:5.1f} covered {covered:4.0%} (sampling alone {before:4.0%}) half-width {100 * width:4.1f}"
    )


def _coverage(looks: list[dict[str, Any]], low: str, high: str) -> tuple[float, float]:
    values = np.array([(look[low], look["used"], look[high]) for look in looks])
    is_covered = (values[:, 0] - 1e-9 <= values[:, 1]) & (values[:, 1] <= values[:, 2] + 1e-9)
    return float(is_covered.mean()), float((values[:, 2] - values[:, 0]).mean() / 2.0)


def _summary(name: str, results: list[dict[str, Any]]) -> str:
    coverages = np.array([_coverage(result["looks"], "low", "high") for result in results])
    before = np.array([_coverage(result["looks"], "sampling_low", "sampling_high") for result in results])
    looks = [look for result in results for look in result["looks"]]
    harm = 100.0 * np.array([result["errors"]["used"] - result["errors"]["fixed"] for result in results])
    always = 100.0 * np.array([result["errors"]["adapted"] - result["errors"]["fixed"] for result in results])
    shown = [look for look in looks if (look["high"] - look["low"]) / 2.0 <= _WIDE]
    of_shown = _coverage(shown, "low", "high") if shown else (float("nan"),) * 2
    parts = [
        f"intervals cover {coverages[:, 0].mean():.1%} (sampling alone {before[:, 0].mean():.1%})",
        f"at least 80 % in {np.mean(coverages[:, 0] >= 0.8):.0%} of runs",
        f"half-width {100 * coverages[:, 1].mean():.1f}, median {100 * np.median(coverages[:, 1]):.1f}",
        f"shown, at most 25 points either side: {len(shown) / len(looks):.0%} of looks, cover {of_shown[0]:.1%}",
        f"half-width of those {100 * of_shown[1]:.1f}",
        f"predictions yes: {_said(looks, 'predictions', 'yes', _is_close)}",
        f"predictions no: {_said(looks, 'predictions', 'no', _is_off)}",
        f"adaptation yes: {_said(looks, 'adaptation', 'yes', _is_better)}",
        f"adaptation no: {_said(looks, 'adaptation', 'no', _is_worse)}",
        f"inputs yes: {_said(looks, 'inputs', 'yes', _is_close)} with a close estimate",
        f"inputs no: {_said(looks, 'inputs', 'no', _is_off)} with one that is off",
        f"used minus fixed: mean {harm.mean():+.3f}, worst {harm.max():+.2f}, best {harm.min():+.2f}",
        f"always adapted minus fixed: mean {always.mean():+.3f}, worst {always.max():+.2f}, best {always.min():+.2f}",
    ]
    return "\n  ".join([f"{name}: {len(results)} runs, {len(looks)} looks", *parts])


def _said(looks: list[dict[str, Any]], question: str, answer: str, is_right: Any) -> str:
    said = [look for look in looks if look[question] == answer]
    right = f"right in {np.mean([is_right(look) for look in said]):.0%}" if said else "never"
    return f"{len(said) / len(looks):.0%} of looks, {right}"


def _is_close(look: dict[str, Any]) -> bool:
    return bool(abs(look["used"] - look["estimate"]) <= _CLOSE)


def _is_off(look: dict[str, Any]) -> bool:
    return not _is_close(look)


def _is_better(look: dict[str, Any]) -> bool:
    return bool(look["adapted"] <= look["fixed"])


def _is_worse(look: dict[str, Any]) -> bool:
    return bool(look["adapted"] >= look["fixed"])
