"""Which columns show something new, as the rows come in: one event for each column and onset."""

from __future__ import annotations

from dataclasses import dataclass

from accous.diagnostics.drift import MAX_EVENTS, DriftEvent

__all__ = ["NOTHING_FOUND", "ROUNDS_BETWEEN_COLUMN_LOOKS", "ColumnWatch"]

ROUNDS_BETWEEN_COLUMN_LOOKS = 32
# A finding is over when this many looks in a row do not show it.
_QUIET_LOOKS = 4


@dataclass(frozen=True, slots=True)
class ColumnWatch:
    """What was found so far.

    Attributes
    ----------
    n_closed : int
        Number of closed blocks of recent rows at the last look.
    found : tuple of str
        The findings in progress, as kind and column.
    quiet : tuple of int
        For each of them, the number of looks since it was last seen.
    events : tuple of DriftEvent
        The last ``MAX_EVENTS`` onsets.
    """

    n_closed: int = 0
    found: tuple[str, ...] = ()
    quiet: tuple[int, ...] = ()
    events: tuple[DriftEvent, ...] = ()

    def look(self, this_round: int, n_closed: int, rare: list[tuple[str, str, float]]) -> ColumnWatch:
        """Return the watch after a look at the recent rows.

        Parameters
        ----------
        this_round : int
        n_closed : int
            Number of closed blocks of recent rows.
        rare : list of (kind, column, share)
            What is too frequent for chance.
        """
        if not rare and not self.found:
            return ColumnWatch(n_closed, (), (), self.events)
        now = {f"{kind}: {column}": (kind, column, share) for kind, column, share in rare}
        quiet = {key: 0 if key in now else n_looks + 1 for key, n_looks in zip(self.found, self.quiet, strict=True)}
        events = [
            DriftEvent(this_round, share, (column,), None, kind)
            for key, (kind, column, share) in now.items()
            if key not in quiet
        ]
        lasting = {key: n_looks for key, n_looks in quiet.items() if n_looks < _QUIET_LOOKS} | dict.fromkeys(now, 0)
        return ColumnWatch(n_closed, tuple(lasting), tuple(lasting.values()), (*self.events, *events)[-MAX_EVENTS:])


NOTHING_FOUND = ColumnWatch()
