"""Images per second through efficientnet_lite0: the network alone, `BackboneFeatures` around it, and its cache.

The images are random. All run on one thread in turns, and the best turn counts. Times are CPU seconds, so that a busy
machine matters less.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console

from accous.deep import BackboneFeatures
from benchmarks.record import write_results

REPEATS = 5
N_IMAGES = 480
SIZES = (64, 96)


def main() -> None:
    """Measure, print and save."""
    console = Console()
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            rows.update(measure(size, folder))
    for name, value in rows.items():
        console.print(f"{name}: {value:,.4g}")
    console.print(f"Written to {write_results('embedding', rows)}")


def measure(size: int, folder: str) -> dict[str, float]:
    """Return images per CPU second for one image size."""
    images = np.random.default_rng(0).integers(0, 256, (N_IMAGES, 32, 32, 3), dtype=np.uint8)
    plain = BackboneFeatures(image_size=size, n_jobs=1, random_state=0).fit(images)
    cached = BackboneFeatures(image_size=size, n_jobs=1, random_state=0, cache=folder).fit(images)
    prepared = plain.backbone_.preparation.prepare(images).split(plain.batch_size)
    torch.set_num_threads(1)

    def bare() -> None:
        with torch.inference_mode():
            for piece in prepared:
                plain.backbone_.module(piece)

    ways: dict[str, Callable[[], object]] = {
        "the network alone": bare,
        "BackboneFeatures": lambda: plain.transform(images),
        "BackboneFeatures, from the cache": lambda: cached.transform(images),
    }
    seconds = dict.fromkeys(ways, np.inf)
    for _ in range(REPEATS):
        seconds = {name: min(seconds[name], cpu_seconds(way)) for name, way in ways.items()}
    return {f"images per CPU second at {size} pixels, {name}": N_IMAGES / seconds[name] for name in ways}


def cpu_seconds(way: Callable[[], object]) -> float:
    """Return the CPU time of one run."""
    start = time.process_time()
    way()
    return time.process_time() - start


if __name__ == "__main__":
    main()
