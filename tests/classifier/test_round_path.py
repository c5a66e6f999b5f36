"""The path of a round stays short: few calls, few files, few changes from one file to another.

Somebody who follows a round in a debugger steps through these. Before the limits were set, a round without a refit made
63 calls in 23 files and changed from one file to another 54 times, without a pool. Five of the files hold compiled
loops, which numba caches file by file; they stay apart from the code that calls them.
"""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

import accous
from accous import AdaptiveClassifier
from accous.streams import GaussianStream, SquareShift
from tests.needs import needs_compilation

ROOT = str(Path(accous.__file__).parent)
# The pool takes nine of the files: it judges the batch, and mixes the ratio in use.
MOST_CALLS, MOST_FILES, MOST_FILES_WITHOUT_KERNELS, MOST_CHANGES = 66, 27, 22, 54


def files_called(model, X):
    """The package's file of each call within one round, in order; kernels are reported as calls too."""
    files = []

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            files.append(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        model.adapt(X)
    finally:
        sys.setprofile(None)
    return files


@needs_compilation
def test_a_round_without_a_refit_passes_through_few_files():
    stream = GaussianStream(SquareShift(period=100), n_rounds=300)
    model = AdaptiveClassifier().fit(*stream.reference())
    paths = []
    for batch in stream:
        n_refits = model.n_refits_
        files = files_called(model, batch.X)
        if batch.round > 20 and model.n_refits_ == n_refits:
            paths.append(files)
    assert len(paths) > 50
    calls = [len(files) for files in paths]
    n_files = [len(set(files)) for files in paths]
    without_kernels = [len({file for file in files if "kernels_" not in file}) for files in paths]
    changes = [sum(one != other for one, other in pairwise(files)) for files in paths]
    assert np.median(calls) <= MOST_CALLS
    assert np.median(n_files) <= MOST_FILES
    assert np.median(without_kernels) <= MOST_FILES_WITHOUT_KERNELS
    assert np.median(changes) <= MOST_CHANGES
    assert np.median(calls) > 20, "the profiler saw the round"
