"""Compare the one-step ratios with ADAPT, densratio and skada, and risks with NannyML: ``make bench-peers``.

Every peer runs in its own environment and process. Ours and the peers take turns, all on one thread.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from rich.console import Console
from rich.progress import track
from threadpoolctl import threadpool_limits

from benchmarks.peers.contests import CONTESTS, run_contest
from benchmarks.peers.edges import METHODS, measure_edges
from benchmarks.peers.freeze import freeze
from benchmarks.peers.problems import gaussian_problem
from benchmarks.peers.processes import Peer
from benchmarks.peers.risks import measure_risks, risk_grid
from benchmarks.peers.tables import RISKS_BEGIN, RISKS_END, agreement_grid, edge_grid, speed_grid, write_page
from benchmarks.problems import SHIFTS
from benchmarks.record import write_results

SHAPE = {"n_reference": 1000, "n_features": 12, "batch_size": 5, "n_batches": 3}
TURNS = 4
SECONDS_A_TURN = 1.0  # with shorter turns, times differed by two thirds from run to run


def main() -> None:
    """Measure, print and save, or only store the peers' answers for the tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--freeze", action="store_true", help="only store the peers' answers to small problems")
    parser.add_argument("--risks", action="store_true", help="only compare the error without labels with NannyML")
    parser.add_argument("--references", type=int, default=20, help="references per shift for --risks (default 20)")
    arguments = parser.parse_args()
    console = Console(width=170)
    if not arguments.freeze:
        compare_risks(console, arguments.references)
    if arguments.risks:
        return
    with ExitStack() as stack:
        peers = {name: stack.enter_context(Peer(name)) for name in METHODS}
        if arguments.freeze:
            console.print(f"Written to {freeze(peers)}")
        else:
            stack.enter_context(threadpool_limits(1))
            measure(peers, console)


def compare_risks(console: Console, n_references: int) -> None:
    """Measure the error and the time of estimates of the current error."""
    with threadpool_limits(1), Peer("nannyml") as peer:
        rows = [measure_risks(peer, shift, n_references) for shift in track(SHIFTS, "risks", console=console)]
    grid = risk_grid(rows)
    console.print(grid.rich())
    write_page([grid], RISKS_BEGIN, RISKS_END)
    console.print(f"Written to {write_results('peers_risks', rows)} and docs/peers.md")


def measure(peers: dict[str, Peer], console: Console) -> None:
    """Measure speed, agreement and hard cases."""
    problem = gaussian_problem(**SHAPE)
    rows = [
        run_contest(contest, peers[contest.peer], problem, TURNS, SECONDS_A_TURN)
        for contest in track(CONTESTS, "peers", console=console)
    ]
    shape = "{n_reference} reference rows, {n_features} features, {batch_size} batch rows".format(**SHAPE)
    grids = [speed_grid(rows, shape), agreement_grid(rows)]
    for grid in grids:
        console.print(grid.rich())
    edges = list(measure_edges(peers))
    grids.append(edge_grid(edges))
    console.print(grids[-1].rich())
    write_page(grids)
    console.print(f"Written to {write_results('peers', rows + edges)} and docs/peers.md")


if __name__ == "__main__":
    main()
