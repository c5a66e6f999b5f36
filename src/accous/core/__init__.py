"""Pure maths of the method: arrays in, arrays out.

The paper's algorithms stand in plain numpy beside their compiled twins: `losses`, `learners` (Newton steps and
projections), `ensemble` (cover, meta weights, rounds), `pool` (candidate ratios and regimes), `regression`, `ridge` and
`ratio_problems` (what is solved inside estimators), `round` (the compiled round of one model or many), `many_keys`
(states of many keys). `compiled` and `kernels_*` are compiled loops. numpy, scipy and numba only: no scikit-learn, no
files, no clocks, no randomness of its own, and nothing given is written into.
"""

from __future__ import annotations
