"""Ten minutes of load: every answer is right, and the memory stays flat."""

import os
import random
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.service.servers import serving
from tests.waiting import PATIENCE

pytestmark = pytest.mark.slow
SECONDS = float(os.environ.get("ACCOUS_SOAK_SECONDS", "600"))


def memory_of(pid: int) -> float:
    """Resident memory in megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


class Traffic:
    """Clients that learn, predict and send labels, and one that follows the events."""

    def __init__(self, fitted, address: str) -> None:
        self._fitted, self._address = fitted, address
        self.is_over, self.errors = threading.Event(), []
        self.counts = dict.fromkeys(("predict", "step", "labels", "events"), 0)
        jobs = [(self._work, seed) for seed in range(4)] + [(self._follow,)]
        self._threads = [threading.Thread(target=self._guarded, args=job) for job in jobs]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _guarded(self, target, *arguments) -> None:
        try:
            target(*arguments)
        except BaseException as error:  # raised by the test
            self.errors.append(error)

    def _work(self, seed: int) -> None:
        chance = random.Random(seed)
        with httpx.Client(base_url=self._address, timeout=PATIENCE, trust_env=False) as client:
            while not self.is_over.is_set():
                self._send(client, chance, seed)

    def _send(self, client: httpx.Client, chance: random.Random, seed: int) -> None:
        rows, labels = self._fitted.rows, self._fitted.labels
        start = chance.randrange(len(rows) - 4)
        batch = {"rows": rows[start : start + 1 + chance.randrange(3)]}
        key = {"idempotency-key": f"{seed}-{chance.random()}"} if chance.random() < 0.5 else {}
        answer = client.post("/v1/step", json=batch, headers=key)
        assert answer.status_code == 200, answer.text
        self.counts["step"] += 1
        assert client.post("/v1/predict", json=batch).status_code == 200
        self.counts["predict"] += 1
        if chance.random() < 0.1:
            late = [{"id": each, "label": labels[start]} for each in answer.json()["ids"]]
            assert client.post("/v1/labels", json={"labels": late}).status_code == 200
            self.counts["labels"] += 1

    def _follow(self) -> None:
        with httpx.stream("GET", f"{self._address}/v1/events", timeout=PATIENCE, trust_env=False) as stream:
            for line in stream.iter_lines():
                self.counts["events"] += line.startswith("event")
                if self.is_over.is_set():
                    return


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc: run the tests on Linux")
def test_memory_stays_flat(forks, numbers, tmp_path):
    folder, samples = numbers.copy(tmp_path / "model"), []
    with serving(forks, folder, "--save-batches", "1000") as server:
        traffic, began = Traffic(numbers, server.address), time.monotonic()
        while time.monotonic() - began < SECONDS and not traffic.errors:
            time.sleep(1.0)
            samples.append(memory_of(server.process.pid))
        traffic.is_over.set()
        traffic.join()  # the reader of events ends at the next sign of life
        assert traffic.errors == []
    assert server.process.returncode == 0
    # Kept answers may take 16 MB, and the first fifth fills caches.
    settled = samples[len(samples) // 5 :]
    early, late = settled[: len(settled) // 4], settled[-len(settled) // 4 :]
    growth = sum(late) / len(late) - sum(early) / len(early)
    print(f"{traffic.counts}, MB: {samples[0]:.0f} at first, {settled[0]:.0f} settled, {samples[-1]:.0f} at the end")
    assert growth < 24.0, samples[:: max(1, len(samples) // 20)]
    assert all(traffic.counts.values()), traffic.counts
