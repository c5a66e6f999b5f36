"""Waiting for a condition, not for a time: the limit is for what will never happen, however busy the machine is."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 600.0  # seconds


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Return as soon as the condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"no {what} within {PATIENCE:g} seconds"
        time.sleep(0.02)


@contextmanager
def asking(ask: Callable[[], object], n_threads: int) -> Iterator[Callable[[], None]]:
    """Let threads ask again and again while the block runs.

    Yields a function that waits until each of them has got one more answer: without it, a busy machine might let none
    of them run before the block has ended.
    """
    is_done = threading.Event()
    counts = [0] * n_threads
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            while not is_done.is_set():
                ask()
                counts[number] += 1
        except BaseException as error:  # raised by the thread that waits
            errors.append(error)

    def wait_for_answers() -> None:
        before = list(counts)
        wait_for(lambda: errors or all(now > then for now, then in zip(counts, before, strict=True)), "answers")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(n_threads)]
    for thread in threads:
        thread.start()
    try:
        yield wait_for_answers
    finally:
        is_done.set()
        for thread in threads:
            thread.join()
    assert errors == []
