"""Compare the one-step ratios with ADAPT, densratio and skada: ``make bench-peers``.

Every peer runs in its own environment and process. Ours and the peers take turns, all on one thread. The tables go to
docs/peers.md. ``--freeze`` only stores the peers' answers to small problems, so that the tests need no peer.
"""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.pages import ROOT, fill, keep, markdown
from benchmarks.peers.contests import CONTESTS, gaussian_problem, run_contest
from benchmarks.peers.processes import Peer
from benchmarks.peers.serving import Settings

Row = dict[str, Any]
RATIO_PEERS = ("adapt", "densratio", "skada")
SHAPE = {"n_reference": 1000, "n_features": 12, "batch_size": 5, "n_batches": 3}
TURNS = 4
SECONDS_A_TURN = 1.0  # with shorter turns, times differed by two thirds from run to run


# --- the peers' answers for the tests -----------------------------------------------------------------------------

FROZEN = ROOT / "tests" / "peers" / "answers.npz"
FROZEN_SHAPE = {"n_reference": 120, "n_features": 3, "batch_size": 8, "n_batches": 3}
LEAST_SQUARES = {"width": 1.5, "ridge": 0.1}
LOOSE = {"width": 1.5, "max_ratio": 1000.0, "mass_tolerance": 0.9}
TIGHT = {"width": 1.5, "max_ratio": 4.0, "mass_tolerance": 0.05}  # both bounds are reached
QUESTIONS: dict[str, tuple[str, Settings, tuple[str, ...]]] = {
    "ulsif": ("ulsif", LEAST_SQUARES, ("adapt", "densratio")),
    "rulsif": ("rulsif", LEAST_SQUARES | {"alpha": 0.1}, ("adapt", "densratio")),
    "kliep": ("kliep", {"width": 1.5}, ("adapt", "densratio", "skada")),
    "kmm": ("kmm", LOOSE, ("adapt", "skada")),
    "kmm_tight": ("kmm", TIGHT, ("adapt", "skada")),
}


def freeze(peers: dict[str, Peer]) -> None:
    """Ask every peer every question and store the answers."""
    problem = gaussian_problem(**FROZEN_SHAPE)
    arrays: dict[str, Any] = {"reference": problem.reference, "batches": problem.batches}
    versions = {}
    for question, (method, settings, names) in QUESTIONS.items():
        for name in names:
            answer = peers[name].estimate(method, problem, settings)
            arrays |= {f"{question}/{name}/weights": answer.weights, f"{question}/{name}/coefs": answer.coefs}
            versions[name] = answer.version
    settings_of = {question: settings for question, (_, settings, _) in QUESTIONS.items()}
    np.savez_compressed(FROZEN, settings=json.dumps(settings_of), versions=json.dumps(versions), **arrays)


# --- tables -------------------------------------------------------------------------------------------------------


def table(title: str, columns: dict[str, str], rows: list[Row]) -> str:
    """Return a titled table; a column is a heading and how a row is written under it."""
    lines = [[form.format(**row) for form in columns.values()] for row in rows]
    return f"{title}:\n\n" + markdown([heading.strip() for heading in columns], lines, n_left=len(columns))


WHO = {"method": "{method}", "peer": "{peer} {peer_version}", "its settings": "{peer_settings}"}


def speed_table(rows: list[Row]) -> str:
    """Return milliseconds of one update, how many times faster ours is by both clocks, and whether the aim is met."""
    columns = {
        **WHO,
        "peer ": "{peer_seconds_ms}",
        "accous": "{our_seconds_ms}",
        "times faster": "{times_faster:.0f} ({times_less_work:.0f})",
        "accous, its settings": "{our_seconds_same_settings_ms}",
        "times faster ": "{times_faster_same_settings:.0f} ({times_less_work_same_settings:.0f})",
        "accous fit": "{our_seconds_of_fit_ms}",
        "aim": "{aim_text}",
        "": "{verdict}",
    }
    shown = [
        row
        | {f"{name}_ms": milliseconds(value) for name, value in row.items() if "seconds" in name}
        | {"aim_text": "" if row["aim"] is None else f"{row['aim']:.0f}"}
        for row in rows
    ]
    return table("Milliseconds of one ratio update (in brackets: how many times less CPU time)", columns, shown)


def agreement_table(rows: list[Row]) -> str:
    """Return objective values and constraints at both solutions, for the peer's settings."""
    columns = {
        **WHO,
        "weights differ by": "{largest_weight_difference:.1e}",
        "our objective": "{our_objective:.8f}",
        "its objective": "{peer_objective:.8f}",
        "ours worse by": "{worst_relative_excess:+.1e}",
        "we violate": "{our_violation:.0e}",
        "it violates": "{peer_violation:.0e}",
    }
    return table("The same problem, solved twice (smaller objectives are better)", columns, rows)


def milliseconds(seconds: float) -> str:
    """Return milliseconds with three significant digits."""
    return f"{1e3 * seconds:.3g}" if seconds < 1.0 else f"{1e3 * seconds:.0f}"


# --- main ---------------------------------------------------------------------------------------------------------


def compare_ratios(peers: dict[str, Peer]) -> None:
    """Measure speed and agreement."""
    problem = gaussian_problem(**SHAPE)
    with threadpool_limits(1):
        rows = [run_contest(contest, peers[contest.peer], problem, TURNS, SECONDS_A_TURN) for contest in CONTESTS]
    tables = speed_table(rows) + "\n" + agreement_table(rows)
    print(tables)
    keep("peers", rows)
    fill("peers.md", {"bench-peers": tables})


def main() -> None:
    """Measure, print and keep, or only store the peers' answers for the tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--freeze", action="store_true", help="only store the peers' answers to small problems")
    options = parser.parse_args()
    with ExitStack() as stack:
        peers = {name: stack.enter_context(Peer(name)) for name in RATIO_PEERS}
        (freeze if options.freeze else compare_ratios)(peers)


if __name__ == "__main__":
    main()
