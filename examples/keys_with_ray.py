"""One model per key with Ray: plain files of rows and of states, one task per bucket of keys.

Needs Ray, which the tests do not install: pip install ray. Run: python examples/keys_with_ray.py
"""

import tempfile
import zlib
from pathlib import Path

import numpy as np
import ray
from sklearn.datasets import make_classification

import accous
from accous.keyed import KeyedAdapter
from accous.keyed.arrow import pack_page, unpack_page

N_BUCKETS, N_DAYS, N_SHOPS = 4, 3, 40


@ray.remote
class Bucket:
    """Keeps the adapter of its process, and nothing else: the states are in files."""

    def __init__(self, folder: Path, bucket: int) -> None:
        self.folder, self.bucket = folder, bucket
        self.adapter = KeyedAdapter(accous.load(folder / "model"), round_size=5)

    def run(self, day: int) -> int:
        rows = np.load(self.folder / f"rows-{day}.npz")
        is_here = np.array([zlib.crc32(shop.encode()) % N_BUCKETS == self.bucket for shop in rows["shops"].tolist()])
        before = self.folder / f"states-{day - 1}-{self.bucket}"
        states = unpack_page(before.read_bytes()) if before.exists() else {}
        new, predictions, _ = self.adapter.step_many(states, rows["shops"][is_here], None, rows["X"][is_here])
        (self.folder / f"states-{day}-{self.bucket}").write_bytes(pack_page(states | new))
        return len(predictions)


X, y = make_classification(600, 4, n_informative=3, n_redundant=0, flip_y=0.1, random_state=0)
with tempfile.TemporaryDirectory() as name:
    folder, rng = Path(name), np.random.default_rng(0)
    accous.save(accous.AdaptiveClassifier().fit(X, y), folder / "model")
    for day in range(N_DAYS):
        shops = np.array([f"shop {shop}" for shop in rng.integers(N_SHOPS, size=2000)])
        np.savez(folder / f"rows-{day}.npz", shops=shops, X=X[rng.integers(len(X), size=len(shops))])
    ray.init(include_dashboard=False)
    buckets = [Bucket.remote(folder, bucket) for bucket in range(N_BUCKETS)]
    for day in range(N_DAYS):
        print(f"day {day}: {sum(ray.get([bucket.run.remote(day) for bucket in buckets])):,} predictions")
    ray.shutdown()
