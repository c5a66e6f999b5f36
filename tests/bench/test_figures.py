"""What is kept of curves and weights, and what figures read off them."""

import numpy as np
import pytest

from accous_bench.aggregates import Curve, aggregate_rows, curves_from_rows, learner_weights_from_rows, switching_period
from accous_bench.figures import draw_comparison, draw_figures, draw_switches, draw_weights, since_switch
from accous_bench.statistics import make_panels
from tests.bench.rows import make_row, natural_rows, switch_rows


def by_contender(curves: list[Curve]) -> dict[str, Curve]:
    return {curve.contender: curve for curve in curves}


def test_curves_around_switches_are_means_over_seeds() -> None:
    rows = switch_rows(n_seeds=3)
    curve = by_contender(curves_from_rows(rows))["accous"]
    expected = np.mean([row["curve"]["risk"] for row in rows if row["contender"] == "accous"], axis=0)
    assert curve.n_seeds == 3
    assert curve.period == 50
    assert curve.rounds == list(range(1, 401))
    assert curve.values("risk") == pytest.approx(expected, abs=1e-4)
    assert curve.values("estimator_loss") is not None
    assert curve.values("error") is None


def test_only_the_last_thousand_rounds_are_kept_in_at_most_500_points() -> None:
    rows = switch_rows(n_seeds=1, n_rounds=3000, period=100)
    curve = by_contender(curves_from_rows(rows))["OLRE"]
    assert (curve.rounds[0], curve.rounds[-1], len(curve.rounds)) == (2002, 3000, 500)
    risks = np.array(next(row for row in rows if row["contender"] == "OLRE")["curve"]["risk"])
    assert curve.values("risk") == pytest.approx(risks[2000:].reshape(500, 2).mean(axis=1), abs=1e-4)


def test_unknown_points_stay_unknown() -> None:
    rows = switch_rows(n_seeds=1)
    for row in rows:
        row["curve"]["risk"][7] = None
    curve = by_contender(curves_from_rows(rows))["FIX"]
    assert curve.series["risk"][7] is None
    assert None not in curve.series["risk"][:7]


def test_natural_curves_of_different_lengths_are_averaged_point_by_point() -> None:
    rows = natural_rows(n_seeds=3)
    curves = [curve for curve in curves_from_rows(rows) if curve.key.dataset == "gas_sensor"]
    curve = by_contender(curves)["FIX"]
    assert curve.n_seeds == 3
    assert curve.rounds[-1] == 503
    assert len(curve.rounds) == 100
    assert set(curve.series) == {"error"}


@pytest.mark.parametrize(
    ("changes", "period"),
    [
        ({"shift": "Squ"}, 100),
        ({"shift": "Sin", "n_rounds": 400}, 20),
        ({"shift": "Squ", "settings": {"stream": "GaussianStream(shift=SquareShift(period=37))"}}, 37),
        ({"shift": "Squ", "settings": {"stream": "MixtureStream(SquareShift(period=None))"}}, 100),
        ({"shift": "Lin"}, None),
        ({"shift": "natural"}, None),
    ],
)
def test_switching_period(changes: dict, period: int | None) -> None:
    assert switching_period(make_row("accous", 0, **changes)) == period


def test_mean_weights_are_over_the_rounds_in_use() -> None:
    rows = switch_rows()
    (curve,) = learner_weights_from_rows(rows)
    noted = next(row["learner_weights"] for row in rows if row["learner_weights"])
    weights, rounds = np.array(noted["weight"]), np.array(noted["round"])
    expected = [weights[rounds >= length, place].mean() for place, length in enumerate(noted["length"])]
    assert curve.series["mean_weight"] == pytest.approx(expected, abs=1e-4)
    assert len(curve.rounds) == 150
    # Every block of rounds shares out the whole weight, but for the first three rounds, which have no learner.
    assert np.array(curve.series["weight"])[2:].sum(axis=1) == pytest.approx(1.0, abs=0.005)


def test_mean_since_the_switch_by_hand() -> None:
    rounds = np.arange(1, 10)
    values = np.array([9.0, 9.0, 9.0, 1.0, 2.0, 3.0, 5.0, np.nan, 7.0])
    offsets, means = since_switch(rounds, values, 3)
    assert offsets.tolist() == [0, 1, 2]
    assert means.tolist() == [3.0, 2.0, 5.0]


def test_heat_map_shows_the_weights_and_marks_the_period() -> None:
    (curve,) = learner_weights_from_rows(switch_rows())
    figure = draw_weights(curve)
    heat, bars = figure.axes[0], figure.axes[1]
    shown = heat.collections[0].get_array()
    is_in_use = np.array(curve.rounds)[None, :] >= np.array(curve.series["length"])[:, None]
    assert (~np.ma.getmaskarray(shown) == is_in_use).all()
    assert heat.lines[0].get_ydata()[0] == pytest.approx(np.log2(50) - 2)  # the lowest length is 4
    assert [bar.get_width() for bar in bars.patches] == curve.series["mean_weight"]


def test_switches_have_a_row_for_the_risk_and_one_for_the_loss() -> None:
    curves = curves_from_rows(switch_rows())
    figure = draw_switches(curves)
    risk, _, loss, _ = figure.axes
    assert len(risk.lines) == 4
    assert len(loss.lines) == 2
    assert risk.lines[0].get_ydata()[0] == pytest.approx(100 * curves[0].series["risk"][0])


def test_a_stream_of_another_length_is_not_drawn_beside_the_others() -> None:
    rows = [make_row(name, seed) for name in ("FIX", "KMM", "accous") for seed in (0, 1)]
    rows += [make_row("DANN", 0, error=0.9, n_rounds=100)]
    (panel,) = make_panels(aggregate_rows(rows).outcomes)
    figure = draw_comparison([[("Squ", panel.cells["Squ"])]])
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["KMM", "accous"]
    assert figure.axes[0].get_xlim()[1] < 80.0


def test_only_weights_of_periods_that_an_interval_can_match_are_drawn() -> None:
    rows = [
        *switch_rows(period=50),
        *(row | {"shift": "Squ64", "run": row["run"] + "64"} for row in switch_rows(period=64)),
    ]
    names = [figure.name for figure in draw_figures(aggregate_rows(rows)) if "weights" in figure.name]
    assert names
    assert all("squ64" in name for name in names)
