"""Many requests at once: predictions do not wait for learning, and a key counts once however often it comes."""

import json
import threading

import httpx

from tests.service.servers import JSON, serving
from tests.waiting import PATIENCE


def test_predictions_do_not_wait_for_the_learner(forks, numbers, tmp_path):
    large, small = json.dumps({"rows": numbers.rows[:400]}), json.dumps({"rows": numbers.rows[:1]})
    n_batches, rounds = 24, []
    with serving(forks, numbers.copy(tmp_path / "model")) as server:

        def learn() -> None:
            with httpx.Client(base_url=server.address, timeout=PATIENCE, trust_env=False) as client:
                assert client.post("/v1/adapt", content=large, headers=JSON).status_code == 200

        threads = [threading.Thread(target=learn) for _ in range(n_batches)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            rounds.append(server.client.post("/v1/predict", content=small, headers=JSON).json()["round"])
        for thread in threads:
            thread.join()
    # Answers came from many rounds in between, in their order: each read one of them while others were learned.
    assert rounds == sorted(rounds)
    assert len({number for number in rounds if number < n_batches}) > 1


def test_the_same_key_at_the_same_time_counts_once(forks, numbers, tmp_path):
    answers = []
    with serving(forks, numbers.copy(tmp_path / "model")) as server:

        def send() -> None:
            with httpx.Client(base_url=server.address, timeout=PATIENCE, trust_env=False) as client:
                content = json.dumps({"rows": numbers.rows[:3]})
                for key in ("one", "two"):
                    headers = JSON | {"idempotency-key": key}
                    answers.append((key, client.post("/v1/step", content=content, headers=headers).content))

        threads = [threading.Thread(target=send) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.client.get("/readyz").json()["rounds"] == 2
    assert len(set(answers)) == 2
    assert len(answers) == 24
