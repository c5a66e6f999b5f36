"""One model per key with Dask: plain files of rows and of states, one task per bucket of keys and day.

Run: python examples/keys_with_dask.py
"""

import tempfile
import zlib
from pathlib import Path

import dask
import numpy as np
from sklearn.datasets import make_classification

from accous import AdaptiveClassifier
from accous.keyed import KeyedAdapter, fleet
from accous.keyed.arrow import pack_page, unpack_page

N_BUCKETS, N_DAYS, N_SHOPS = 4, 3, 40
X, y = make_classification(600, 4, n_informative=3, n_redundant=0, flip_y=0.1, random_state=0)
adapter = KeyedAdapter(AdaptiveClassifier().fit(X, y), round_size=5)


@dask.delayed
def run_day(folder: Path, bucket: int, day: int, before: Path | None) -> Path:
    """Read a day's rows of a bucket and the states of the day before; write the states of this day."""
    rows = np.load(folder / f"rows-{day}.npz")
    is_here = np.array([zlib.crc32(shop.encode()) % N_BUCKETS == bucket for shop in rows["shops"].tolist()])
    states = {} if before is None else unpack_page(before.read_bytes())
    new, _, _ = adapter.step_many(states, rows["shops"][is_here], None, rows["X"][is_here])
    target = folder / f"states-{day}-{bucket}"
    target.write_bytes(pack_page(states | new))
    return target


with tempfile.TemporaryDirectory() as name:
    folder, rng = Path(name), np.random.default_rng(0)
    for day in range(N_DAYS):
        shops = np.array([f"shop {shop}" for shop in rng.integers(N_SHOPS, size=8000)])
        moved = np.array([shop.endswith("7") for shop in shops.tolist()])
        rows = X[rng.integers(len(X), size=len(shops))] + 1.5 * moved[:, None] * (day > 0)
        np.savez(folder / f"rows-{day}.npz", shops=shops, X=rows)
    last = [None] * N_BUCKETS
    for day in range(N_DAYS):
        last = [run_day(folder, bucket, day, before) for bucket, before in enumerate(last)]
    pages = dask.compute(*last, scheduler="threads")
    states = {shop: state for page in pages for shop, state in unpack_page(page.read_bytes()).items()}
    drifted = sorted(reading.key for reading in fleet(states, adapter) if reading.drift > 0.4)
    print(f"{len(states)} shops, {sum(map(len, states.values())) / len(states):,.0f} bytes each")
    print("drifted:", ", ".join(drifted))
