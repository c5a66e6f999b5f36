"""Workers only predict, from what the owner has saved; each answer is of one round, and they end with the owner."""

import httpx
import polars as pl
import pytest

from accous.table.model import load_table_model
from tests.service.servers import Server
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.slow


def start(forks, folder) -> tuple[Server, str]:
    server = Server(forks, folder, "--workers", "1", "--read-port", "0", "--save-seconds", "0.2")
    return server, server.read_address()


def is_up(address: str) -> bool:
    try:
        return httpx.get(f"{address}/readyz", trust_env=False, timeout=PATIENCE).status_code == 200
    except httpx.TransportError:
        return False


def test_workers_follow_the_owner(forks, numbers, tmp_path):
    folder = numbers.copy(tmp_path / "model")
    server, address = start(forks, folder)
    alone = load_table_model(numbers.folder)
    with server, httpx.Client(base_url=address, timeout=PATIENCE, trust_env=False) as reader:
        wait_for(lambda: is_up(address), "worker")
        for start_row in range(0, 60, 2):
            rows = numbers.rows[start_row : start_row + 2]
            server.step(rows)
            alone.step(pl.DataFrame(rows))
        content = {"rows": numbers.rows[:5], "include": ["probabilities", "ratio", "ids"]}
        wait_for(lambda: reader.post("/v1/predict", json=content).json()["round"] == 30, "saved round in a worker")
        wait_for(lambda: all(reader.get("/readyz").json()["rounds"] == 30 for _ in range(8)), "all workers")
        answer = reader.post("/v1/predict", json=content).json()
        expected = alone.predict(pl.DataFrame(numbers.rows[:5]))
        assert answer["ratio"] == expected["ratio"].to_list()
        own = server.post("/v1/predict", content).json()
        assert answer["probabilities"] == own["probabilities"]
        # Labels of what a worker has predicted are counted by the owner.
        labels = [{"id": each, "label": "yes"} for each in answer["ids"]]
        assert server.post("/v1/labels", {"labels": labels}).json()["counted"] == 5
        for path in ("/v1/step", "/v1/adapt", "/v1/labels"):
            refused = reader.post(path, json=content)
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "reads_only")
        for path in ("/", "/v1/state", "/report"):
            assert reader.get(path).status_code == 404
        assert reader.get("/v2/models/model").json()["name"] == "model"
    assert server.process.returncode == 0
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{address}/healthz", trust_env=False)


def test_workers_end_when_the_owner_is_killed(forks, numbers, tmp_path):
    server, address = start(forks, numbers.copy(tmp_path / "model"))
    wait_for(lambda: is_up(address), "worker")
    server.kill()
    wait_for(lambda: not is_up(address), "end of the workers")
