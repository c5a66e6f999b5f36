"""Evidence of a backtest against a slow obvious version, and what widening does to an interval."""

import math
from dataclasses import replace
from statistics import fmean, pstdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.diagnostics.losses import LossScale
from accous.diagnostics.risk import NO_EVIDENCE, Look, Residuals, measure_evidence, widen

NAN = float("nan")
shares = st.floats(0.0, 1.0)
half_widths = st.floats(0.001, 0.3)


@st.composite
def looks(draw: Any) -> Look:
    start = draw(st.integers(0, 5000))
    return Look(
        n_reference=draw(st.integers(40, 4000)),
        start=start,
        stop=start + draw(st.integers(1, 1000)),
        error_fixed=draw(shares),
        error_adapted=draw(shares),
        estimate_fixed=draw(shares),
        estimate_adapted=draw(shares),
        half_width_fixed=draw(half_widths),
        half_width_adapted=draw(half_widths),
        drift=draw(shares),
    )


def slow_residuals(pairs: list[tuple[float, float, float, int]], n_reference: int) -> Residuals:
    """Truth, estimate, half-width and number of rows of each look, one after the other."""
    n_looks = len(pairs)
    truth = sum(pair[0] for pair in pairs) / n_looks
    estimate = sum(pair[1] for pair in pairs) / n_looks
    beyond_noise = below = 0.0
    beyond_sampling = []
    for error, estimated, half_width, n_rows in pairs:
        noise = max(error * (1 - error), 0.001) / n_rows
        beyond_noise += ((error - estimated) ** 2 - noise) / n_looks
        below += ((error - estimated) ** 2 * (error < estimated) - noise / 2) / n_looks
        # 1.645 standard errors are the half-width of a 90 % interval.
        beyond_sampling.append((error - estimated) ** 2 - noise - (half_width / 1.6448536269514722) ** 2)
    standard_error = math.sqrt((truth * (1 - truth) + estimate * (1 - estimate)) / (0.6 * n_reference))
    shift = max(0.0, truth - estimate - standard_error)
    return Residuals(
        mean=truth - estimate,
        shift=shift,
        spread=math.sqrt(max(0.0, max(0.0, beyond_noise) - shift**2)),
        spread_down=math.sqrt(max(0.0, below)),
        unexplained=math.sqrt(max(0.0, fmean(beyond_sampling) - pstdev(beyond_sampling) / math.sqrt(n_looks))),
    )


@given(st.lists(looks(), min_size=1, max_size=8), st.integers(100, 5000))
def test_the_evidence_is_that_of_the_slow_version(found: list[Look], n_reference: int) -> None:
    evidence = measure_evidence(found, n_reference)
    assert evidence is not None
    for name in ("fixed", "adapted"):
        parts = [f"{part}_{name}" for part in ("error", "estimate", "half_width")]
        pairs = [(*(getattr(look, part) for part in parts), look.stop - look.start) for look in found]
        expected = slow_residuals(pairs, n_reference)  # type: ignore[arg-type]
        measured = getattr(evidence, name)
        # Squares are compared: the root of a difference that is nearly zero has few digits.
        for part, value in vars(expected).items():
            assert getattr(measured, part) ** 2 == pytest.approx(value**2, abs=1e-12)
    assert evidence.n_looks == len(found)
    assert evidence.drift == pytest.approx(sum(look.drift for look in found) / len(found))
    assert evidence.gain == pytest.approx(sum(look.error_adapted - look.error_fixed for look in found) / len(found))


def one_look(**changes: Any) -> Look:
    look = Look(
        n_reference=400,
        start=400,
        stop=500,
        error_fixed=0.2,
        error_adapted=0.18,
        estimate_fixed=0.1,
        estimate_adapted=0.1,
        half_width_fixed=0.02,
        half_width_adapted=0.02,
        drift=0.4,
    )
    return replace(look, **changes)


@pytest.mark.parametrize("found", [[], [one_look(estimate_fixed=NAN)], [one_look(estimate_adapted=NAN)]])
def test_without_any_estimate_there_is_no_evidence(found: list[Look]) -> None:
    assert measure_evidence(found, 1000) is None


def test_looks_without_an_estimate_do_not_count() -> None:
    known = [one_look(), one_look(error_fixed=0.3)]
    assert measure_evidence([known[0], one_look(estimate_fixed=NAN), known[1]], 1000) == measure_evidence(known, 1000)


def test_looks_after_too_few_rows_have_no_drift_and_leave_that_of_the_others() -> None:
    evidence = measure_evidence([one_look(drift=0.4), one_look(drift=NAN)], 1000)
    assert evidence is not None
    assert (evidence.n_looks, evidence.drift) == (2, 0.4)


def test_drift_that_no_look_could_measure_counts_as_none() -> None:
    evidence = measure_evidence([one_look(drift=NAN)], 1000)
    assert evidence is not None
    assert evidence.drift == 0.0


# --- widening -----------------------------------------------------------------------------------------------

residuals = st.builds(Residuals, mean=shares, shift=shares, spread=shares, spread_down=shares, unexplained=shares)


@st.composite
def intervals(draw: Any) -> tuple[float, float, float]:
    low, estimate, high = sorted(draw(st.tuples(shares, shares, shares)))
    return estimate, low, high


@given(intervals(), residuals, shares, shares, shares)
def test_the_result_contains_the_interval_and_stays_between_0_and_1(
    interval: tuple[float, float, float], found: Residuals, drift: float, seen_drift: float, disagreement: float
) -> None:
    wide = widen(interval, found, drift=drift, seen_drift=seen_drift, disagreement=disagreement)
    assert wide[0] == interval[0]
    assert 0.0 <= wide[1] <= interval[1]
    assert interval[2] <= wide[2] <= 1.0


@given(
    interval=intervals(),
    found=residuals,
    drift=shares,
    seen_drift=shares,
    disagreement=shares,
    more=st.floats(0.01, 1.0),
    name=st.sampled_from(["drift", "disagreement", "spread", "spread_down", "shift"]),
)
def test_more_drift_disagreement_or_spread_never_narrows(
    interval: tuple[float, float, float],
    found: Residuals,
    drift: float,
    seen_drift: float,
    disagreement: float,
    more: float,
    name: str,
) -> None:
    given_now = {"drift": drift, "disagreement": disagreement}
    before = widen(interval, found, seen_drift=seen_drift, **given_now)
    if name in given_now:
        after = widen(interval, found, seen_drift=seen_drift, **given_now | {name: given_now[name] + more})
    else:
        wider = replace(found, **{name: getattr(found, name) + more})
        after = widen(interval, wider, seen_drift=seen_drift, **given_now)
    assert after[1] <= before[1]
    assert after[2] >= before[2]


@given(st.floats(0.0, 0.1), st.floats(0.0, 0.1), st.floats(0.1, 1.0), st.floats(0.0, 0.5))
def test_drift_that_the_reference_has_seen_widens_less(
    half_width: float, spread: float, drift: float, disagreement: float
) -> None:
    found = Residuals(mean=0.0, shift=0.01, spread=spread, spread_down=spread, unexplained=0.0)
    new, seen = (
        widen((0.1, 0.1, 0.1 + half_width), found, drift=drift, seen_drift=each, disagreement=disagreement)
        for each in (0.0, drift)
    )
    assert seen[2] < new[2]
    assert seen[1] == new[1]


@given(intervals(), residuals, shares, shares, shares)
def test_what_is_not_known_counts_as_none(
    interval: tuple[float, float, float], found: Residuals, drift: float, seen_drift: float, disagreement: float
) -> None:
    def wide(drift: float, disagreement: float) -> tuple[float, float, float]:
        return widen(interval, found, drift=drift, seen_drift=seen_drift, disagreement=disagreement)

    assert wide(NAN, disagreement) == wide(0.0, disagreement)
    assert wide(drift, NAN) == wide(drift, 0.0)


def test_an_unknown_estimate_stays_unknown() -> None:
    wide = widen((NAN, NAN, NAN), NO_EVIDENCE.fixed, drift=0.5, seen_drift=0.0, disagreement=0.0)
    assert all(math.isnan(each) for each in wide)


def test_without_any_drift_three_points_are_assumed() -> None:
    """1.5 and 1.645 times three points, together with a half-width of four."""
    wide = widen((0.3, 0.26, 0.34), NO_EVIDENCE.fixed, drift=0.0, seen_drift=0.0, disagreement=0.0)
    assert wide == pytest.approx((0.3, 0.3 - math.hypot(0.04, 0.04935), 0.3 + math.hypot(0.04, 0.045)))


def test_the_shift_moves_the_upper_end_alone() -> None:
    wide = [
        widen((0.3, 0.26, 0.34), replace(NO_EVIDENCE.fixed, shift=by), drift=0.1, seen_drift=0.1, disagreement=0.0)
        for by in (0.0, 0.1)
    ]
    assert wide[1][2] - wide[0][2] == pytest.approx(0.1)
    assert wide[1][:2] == wide[0][:2]


def test_a_unit_whose_square_is_zero_counts_as_any_other() -> None:
    """Numbers that are all nearly the same, as in a column of zeros, have a tiny loss that counts as 1."""
    tiny = 1e-200
    look = Look(
        n_reference=60, start=60, stop=100, drift=0.1, n_effective=40.0,
        error_fixed=0.5 * tiny, error_adapted=0.5 * tiny, estimate_fixed=0.5 * tiny, estimate_adapted=0.25 * tiny,
        half_width_fixed=0.0, half_width_adapted=0.0, square_fixed=0.0, square_adapted=0.0,
    )  # fmt: skip
    found = measure_evidence([look], 100, LossScale("absolute", one=tiny))
    assert found is not None
    assert (found.fixed.mean, found.fixed.unexplained) == (0.0, 0.0)
    assert found.adapted.mean == pytest.approx(0.25)
