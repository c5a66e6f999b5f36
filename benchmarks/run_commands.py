"""The commands of ``accous bench run`` that make the runs behind a page, derived from the runs themselves."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from accous_bench.reporting.cells import in_order
from accous_bench.reporting.outcomes import Outcome
from accous_bench.spec import find_spec, read_spec, spec_names

__all__ = ["run_commands"]

_PARTS = ("datasets", "shifts", "batch_sizes", "seeds")
_Parts = tuple[frozenset[str], ...]


def run_commands(outcomes: Iterable[Outcome]) -> list[str]:
    """Return commands that make at least these runs.

    Contenders that ran on the same data sets, shifts, batch sizes, seeds and rounds share a command. Of an unfinished
    grid, the commands also make the runs that are missing.
    """
    ran: dict[tuple[str, str], dict[str, list[Outcome]]] = {}
    for outcome in outcomes:
        ran.setdefault((outcome.spec, outcome.key.protocol), {}).setdefault(outcome.contender, []).append(outcome)
    return [
        command
        for (spec, protocol), by_contender in ran.items()
        for parts, contenders in _alike(by_contender).items()
        for command in _commands(spec, protocol, parts, contenders)
    ]


def _alike(by_contender: dict[str, list[Outcome]]) -> dict[_Parts, list[str]]:
    """Return the contenders by the parts of the grid that they ran on, the number of rounds last."""
    groups: dict[_Parts, list[str]] = {}
    for name in in_order(by_contender):
        runs = by_contender[name]
        entries = [(run.key.dataset, run.key.shift, run.key.batch_size, run.seed, run.n_rounds) for run in runs]
        groups.setdefault(tuple(frozenset(map(str, part)) for part in zip(*entries, strict=True)), []).append(name)
    return groups


def _commands(name: str, protocol: str, parts: _Parts, contenders: list[str]) -> list[str]:
    """Return one command for the lengths of the spec, and one for each other length."""
    if name not in spec_names():
        return [f"accous bench run {name}"]
    spec = read_spec(find_spec(name))
    words = ["accous", "bench", "run", name]
    for option, entries in zip(("contenders", *_PARTS), (frozenset(contenders), *parts[:-1]), strict=True):
        known = [str(entry) for entry in getattr(spec, option)]
        if entries != frozenset(known):
            chosen = [entry for entry in known if entry in entries] + sorted(entries - frozenset(known))
            words += [f"--{option.replace('_', '-')}", shlex.quote(",".join(chosen))]
    words += [] if protocol == spec.protocol else ["--protocol", protocol]
    usual = frozenset(map(str, spec.rounds))
    others = sorted(parts[-1] - usual, key=int)
    return [" ".join(words)] * bool(parts[-1] & usual) + [" ".join([*words, "--rounds", length]) for length in others]
