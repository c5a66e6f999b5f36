"""A batch that waits for the learner, and how its answer gets back to the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from accous.service.answers import Answer
from accous.service.batch_log import Record
from accous.service.carrying_out import Parsed
from accous.service.refusals import Refusal
from accous.text import LOGGER

__all__ = ["Reply", "Waiting", "resolve", "settle"]

Reply = Callable[[Answer | Refusal], None]


@dataclass(eq=False, slots=True)
class Waiting:
    """A batch in the queue; `is_taken` and `is_given_up` change under the learner's lock only.

    Attributes
    ----------
    record : Record
    parsed : Batch or list of Label
    loop : event loop
        Where ``reply`` is called.
    reply : callable
        Takes the answer or the refusal, once.
    future : Future, optional
        Of the same answer, for others who send a record with the same key; needed if it has one.
    timer : TimerHandle, optional
        Gives the batch back when it has waited too long.
    """

    record: Record
    parsed: Parsed
    loop: asyncio.AbstractEventLoop
    reply: Reply
    future: asyncio.Future[Answer] | None = None
    timer: asyncio.TimerHandle | None = None
    is_taken: bool = False
    is_given_up: bool = False


def resolve(answers: Iterable[tuple[Waiting, Answer | Refusal]]) -> None:
    """Give answers to those who wait; called in their event loop. One who cannot take it holds up nobody else."""
    for waiting, answer in answers:
        if waiting.timer is not None:
            waiting.timer.cancel()
        try:
            waiting.reply(answer)
        except Exception:
            LOGGER.exception("An answer could not be given")


def settle(future: asyncio.Future[Answer], answer: Answer | Refusal) -> None:
    """Set the result of a future whose request may have been given up."""
    if future.done():
        return
    if isinstance(answer, Refusal):
        future.set_exception(answer)
        future.exception()  # seen: the client may have gone
    else:
        future.set_result(answer)
