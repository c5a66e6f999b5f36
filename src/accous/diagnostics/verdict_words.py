"""A verdict with the answers that it is about; it needs no numerical library, so ``accous inspect`` starts at once."""

from __future__ import annotations

__all__ = ["verdict_in_words"]

# The answers that a verdict is about, and what they are called beside it.
_ANSWERS_OF = {"not verified": ("not known", "no")}
_SHORT = {"inputs": "inputs", "adaptation": "adaptation", "predictions": "estimate"}


def verdict_in_words(verdict: str, answers: dict[str, str]) -> str:
    """Return a verdict with the answers that it is about: others may be better.

    Examples
    --------
    >>> verdict_in_words("not verified", {"inputs": "yes", "adaptation": "not known", "predictions": "not known"})
    'not verified: adaptation, estimate'
    """
    decisive = _ANSWERS_OF.get(verdict, ())
    about = [short for name, short in _SHORT.items() if answers[name] in decisive]
    return f"{verdict}: {', '.join(about)}" if about else verdict
