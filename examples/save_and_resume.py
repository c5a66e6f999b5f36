"""Stop in the middle of a stream and continue in another process, with exactly the same result."""

import tempfile
from itertools import islice
from pathlib import Path

import numpy as np

import accous
from accous.streams import GaussianStream, SquareShift

stream = GaussianStream(SquareShift(period=100), n_rounds=300, batch_size=5)
model = accous.AdaptiveClassifier().fit(*stream.reference())

batches = iter(stream)
for batch in islice(batches, 150):
    model.adapt(batch.X)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model"
    accous.save(model, path)  # in the process that stops
    resumed = accous.load(path)  # in the process that continues
print(f"Saved and loaded after round {resumed.n_rounds_}.")

for batch in batches:  # both continue; the first stands for a model that never stopped
    model.adapt(batch.X)
    resumed.adapt(batch.X)

assert np.array_equal(resumed.reference_weight_, model.reference_weight_)
assert np.array_equal(resumed.predict_proba(batch.X), model.predict_proba(batch.X))
print(f"After round {resumed.n_rounds_} it has the weights and predictions of the uninterrupted model, bit for bit.")
