"""What the tests run in other processes: resuming saved models, and saving until killed."""

import os
import random
import signal
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

import accous
from accous.checkpoint.files import DigestStream
from tests.checkpoint.cases import assert_same_bits, history, make_cases, numbers_of

OPERATIONS = ["open", "mkdir", "fsync", "replace", "unlink"]


class Operations:
    """While inside, the operation of a given number ends before or after it is carried out, and so do all that follow.

    A write that ends before it is carried out is cut in half.
    """

    def __init__(self, number, when, end):
        self.number, self.when, self.end = number, when, end
        self.n_seen = 0
        self._patches = ExitStack()

    def __enter__(self):
        for name in OPERATIONS:
            self._patches.enter_context(patch.object(os, name, self._wrap(getattr(os, name))))
        self._patches.enter_context(patch.object(DigestStream, "write", self._wrap_write(DigestStream.write)))
        return self

    def __exit__(self, *error):
        self._patches.close()

    def _wrap(self, operation):
        def carry_out(*args, **kwargs):
            number, self.n_seen = self.n_seen, self.n_seen + 1
            if number > self.number or (number == self.number and self.when == "before"):
                self.end()
            result = operation(*args, **kwargs)
            if number == self.number:
                self.end()
            return result

        return carry_out

    def _wrap_write(self, write):
        def carry_out(stream, content):
            if self.n_seen == self.number and self.when == "before":
                write(stream, content[: len(content) // 2])
                stream.flush()
            return self._wrap(write)(stream, content)

        return carry_out


def resume_all(root):
    """Load every model under a folder, go on, and write down every number."""
    for name, case in make_cases().items():
        if not (root / name).exists():
            continue
        model = accous.load(root / name / "model", **case.given)
        np.savez(root / name / "numbers.npz", **history(case, model))


def kill_at_operations(root, step):
    """Save in child processes that kill themselves at every file operation, or at every second, third, ... one."""
    case, model = start(root)
    before = numbers_of(case, model)
    after = numbers_of(case, case.run(model, 5, 1))
    number = 0
    while wait_for(fork(partial(save_and_die, model, root, number))) == -signal.SIGKILL:
        found = numbers_of(case, accous.load(root))
        assert_same_bits(found, after if found["n_rounds_"] == 5 else before)
        number += step
    assert number > 20
    assert_same_bits(numbers_of(case, accous.load(root)), after)
    assert len(list(root.iterdir())) == 3


def kill_at_random_times(root, n_kills):
    """Save without end in child processes, and kill each some time after its first save."""
    rng = random.Random(0)
    case, model = start(root)
    for _ in range(n_kills):
        n_before = accous.load(root).n_rounds_
        reader, writer = os.pipe()
        child = fork(partial(save_without_end, case, root, writer))
        os.close(writer)
        assert os.read(reader, 1) == b"."
        time.sleep(rng.uniform(0.0, 0.02))
        os.kill(child, signal.SIGKILL)
        assert wait_for(child) == -signal.SIGKILL
        os.close(reader)
        assert accous.load(root).n_rounds_ > n_before
    loaded = accous.load(root)
    assert_same_bits(numbers_of(case, loaded), numbers_of(case, case.run(model, 5, loaded.n_rounds_ - 4)))


def start(folder):
    """A model that was saved after four rounds."""
    case = make_cases()["logistic standardize"]
    model = case.run(case.fit(), 1, 4)
    accous.save(model, folder)
    return case, model


def save_and_die(model, folder, number):
    with Operations(number, "before", lambda: os.kill(os.getpid(), signal.SIGKILL)):
        accous.save(model, folder)


def save_without_end(case, folder, writer):
    model = accous.load(folder)
    while True:
        accous.save(case.run(model, model.n_rounds_ + 1, 1), folder)
        os.write(writer, b".")


def fork(task):
    """Run a task in a child process; its id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            task()
            code = 0
        finally:
            os._exit(code)
    return child


def wait_for(child):
    """The exit code of a child process, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    task, folder, *numbers = sys.argv[1:]
    tasks = {
        "resume_all": resume_all,
        "kill_at_operations": kill_at_operations,
        "kill_at_random_times": kill_at_random_times,
    }
    tasks[task](Path(folder), *map(int, numbers))
