"""Policies that are scored from one replay, and the tables that show them."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.pool_arms import DEFAULT, FALLBACK
from benchmarks.pool_cases import StreamCase
from benchmarks.pool_page import PAGE, selected, with_tables
from benchmarks.pool_policies import POLICIES, policy_table, scores, stream_table
from benchmarks.pool_replays import OfArm, Replay, replay
from benchmarks.record import FOLDER

NAN = float("nan")
WITHOUT, WITH = (
    "veto at 1.5 standard errors (default without an order)",
    "the guard of the backtest (default with an order)",
)


def of_arm(wrong: list[float], *, unexplained: float = 0.0, guard: str = "lenient") -> OfArm:
    excess, standard_error = np.array([NAN, -1.0, 1.0, 2.0]), np.ones(4)
    return OfArm(np.array(wrong), excess, standard_error, unexplained, guard)


def made_up(**of_pool: object) -> Replay:
    """Four rounds of ten rows: no check yet, a gain, a loss of one and one of two standard errors."""
    arms = {"ensemble": of_arm([5.0, 5.0, 5.0, 5.0]), "pool": of_arm([1.0, 2.0, 3.0, 4.0], **of_pool)}
    between = np.array([[NAN] * 3, [0.5, -1.0, 1.0], [2.0, 1.0, -1.0], [-1.0, 0.5, 1.0]])
    return Replay(np.full(4, 10.0), np.full(4, 10.0), np.array([NAN, 0.1, 0.5, 0.1]), between, arms)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("always adapt", [1, 2, 3, 4]),
        (WITHOUT, [1, 2, 3, 10]),
        ("veto at 0.5 standard errors", [1, 2, 10, 10]),
        ("only where its own gain is positive", [10, 2, 10, 10]),
        ("the same, and off where the backtest missed by 4 points", [10, 2, 10, 10]),
        ("veto, and off while 30 % of the rows are outside", [1, 2, 10, 10]),
        (WITH, [1, 2, 3, 10]),
        ("veto, ensemble if better by both weights", [1, 5, 5, 10]),
        ("veto, ensemble if better by 1 standard error", [1, 2, 5, 10]),
        ("veto, ensemble if better by the pool's weights", [1, 2, 5, 10]),
        ("the same, by 1 - p(y) in place of errors", [1, 5, 3, 10]),
    ],
)
def test_a_policy_chooses_who_predicts(policy: str, expected: list[int]) -> None:
    assert POLICIES[policy](made_up(), "pool").tolist() == expected


def test_policies_obey_the_backtest() -> None:
    missed = made_up(unexplained=0.05, guard="off")
    for policy in ("the same, and off where the backtest missed by 4 points", WITH):
        assert POLICIES[policy](missed, "pool").tolist() == [10] * 4
    assert POLICIES[WITH](made_up(guard="strict"), "pool").tolist() == [10] * 4
    no_backtest = made_up(unexplained=NAN)
    assert POLICIES["the same, and off where the backtest missed by 4 points"](no_backtest, "pool").tolist() == [10] * 4


def test_tables_show_harm_gain_and_the_difference() -> None:
    row = {"case": "made up"} | scores(made_up())
    assert row["errors"]["FIX"] == 100.0
    assert row["errors"][f"pool: {WITHOUT}"] == 40.0
    assert f"| {WITHOUT} | 0.0 / -37.5 / -37.5 | 0.0 / -60.0 / -60.0 | -22.50 / -22.50 |" in policy_table([row])
    assert "| made up | 100.00 | 62.50 | 40.00 | -22.50 ± nan |" in stream_table([row])


def test_a_replay_scores_what_the_models_would_predict(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCOUS_DATA", str(data_folder))
    found = scores(replay("occupancy", 300, 600))["errors"]
    for is_ordered, policy in ((False, WITHOUT), (True, WITH)):
        played = StreamCase("occupancy", is_ordered, 300, most_rows=600).errors([FALLBACK, DEFAULT], 0)
        assert found["FIX"] == played["FIX"]
        assert found[f"ensemble: {policy}"] == played[FALLBACK.name]
        assert found[f"pool: {policy}"] == played[DEFAULT.name]


def test_the_page_shows_what_the_files_hold() -> None:
    results = json.loads((FOLDER / "pool.json").read_text())["rows"]
    page = PAGE.read_text(encoding="utf-8")
    assert page.count("<!-- pool.json: ") >= 8
    assert with_tables(page, results) == page


def test_a_table_needs_one_run_of_each_case() -> None:
    rows = [{"case": "a", "seeds": [0], "n_rounds": 5}, {"case": "a", "seeds": [1], "n_rounds": 5}]
    assert selected(rows, {"seeds": "1"}) == rows[1:]
    for settings in ({"n_rounds": "5"}, {"seeds": "7"}):
        with pytest.raises(ValueError, match="one run of each case"):
            selected(rows, settings)
