"""A fixed part of the fuzzer's cases: every format and every plot, in seconds. ``make fuzz`` runs many more."""

from random import Random

import pytest

from tests.fuzz.cases import PLOTS, draw_plot, run_case
from tests.fuzz.tables import FORMATS

SEED, N_CASES = 5, 40
N_MORE, N_AT_ONCE = 400, 20


@pytest.mark.parametrize(
    "first",
    [
        *range(0, N_CASES, N_AT_ONCE),
        *(pytest.param(first, marks=pytest.mark.slow) for first in range(N_CASES, N_CASES + N_MORE, N_AT_ONCE)),
    ],
)
def test_whatever_is_in_the_files_commands_fail_with_a_sentence_and_damage_nothing(first: int) -> None:
    outcomes = [run_case(SEED, number)[0] for number in range(first, first + N_AT_ONCE)]
    failed = {outcome.number: outcome.problems for outcome in outcomes if outcome.problems}
    assert not failed, f"python -m tests.fuzz --seed {SEED} --case {min(failed)} shows what happens"


def test_the_fixed_part_has_every_plot() -> None:
    formats = [FORMATS[number % len(FORMATS)] for number in range(N_CASES)]
    drawn = {draw_plot(Random(f"{SEED}/{number}"), name) for number, name in enumerate(formats)}
    assert drawn == {plot for plot, _, _ in PLOTS}


def test_a_case_is_the_same_whenever_it_is_run() -> None:
    outcome, runs = run_case(SEED, 1)
    again, runs_again = run_case(SEED, 1)
    assert outcome == again
    assert [run.exit_code for run in runs] == [run.exit_code for run in runs_again]
