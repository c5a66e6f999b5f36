"""The pictures: they show what was given, refuse what cannot be shown, and say what is missing."""

import sys

import numpy as np
import pytest

from accous.diagnostics.drift import DriftEvent
from accous.diagnostics.evidence import plot_attribution, plot_history, plot_performance
from accous.diagnostics.performance import Estimate
from accous.exceptions import DataError, MissingExtraError

ESTIMATES = [Estimate("error", 0.2, 0.1, 0.3, "expected", 0.15, 0)] * 3


def test_bars_are_the_shares_in_order():
    axes = plot_attribution([0.1, 0.7, 0.2], ["a", "b", "c"]).axes[0]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([70.0, 20.0, 10.0])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "c", "a"]


def test_shares_over_time_are_a_map():
    axes = plot_attribution(np.full((5, 3), 1 / 3)).axes[0]
    assert axes.images[0].get_array().shape == (3, 5)


def test_history_with_events():
    axes = plot_history([1, 2, 3], [4.0, 8.0, 8.0], [DriftEvent(2, 0.5, ("a",), None)]).axes[0]
    assert axes.lines[0].get_ydata().tolist() == [4.0, 8.0, 8.0]
    assert axes.lines[1].get_xdata()[0] == 2


def test_estimates_with_the_truth():
    axes = plot_performance([1, 2, 3], ESTIMATES, true=[0.25] * 3).axes[0]
    assert [line.get_ydata()[0] for line in axes.lines] == pytest.approx([0.2, 0.15, 0.25])


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plot_attribution([]),
        lambda: plot_attribution([0.5, 0.5], ["a"]),
        lambda: plot_history([1, 2], [3.0]),
        lambda: plot_history([], []),
        lambda: plot_performance([1], ESTIMATES),
        lambda: plot_performance([1, 2, 3], ESTIMATES, true=[0.1]),
    ],
)
def test_what_does_not_fit_together_is_refused(draw):
    with pytest.raises(DataError, match=r"must|names"):
        draw()


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"accous\[plot\]"):
        plot_attribution([1.0])
