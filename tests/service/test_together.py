"""Many requests at once: predictions do not wait for learning, and a key counts once however often it comes."""

import json
import signal
import threading

import httpx

from tests.service.servers import JSON, held, metric, serving
from tests.waiting import PATIENCE, wait_for


def post(client: httpx.Client, path: str, rows: list) -> httpx.Response:
    return client.post(path, content=json.dumps({"rows": rows}), headers=JSON)


def test_predictions_do_not_wait_for_the_learner(forks, numbers, tmp_path):
    """A round is under way and cannot end: predictions are answered, from the round before."""
    answers = []
    with held(forks, numbers.copy(tmp_path / "model")) as (client, process):
        learning = threading.Thread(target=lambda: answers.append(post(client, "/v1/step", numbers.rows[:2])))
        learning.start()
        wait_for(lambda: metric(client, "accous_log_sync_seconds_count") == 1, "batch in the log")
        for include in ([], ["ids", "probabilities", "ratio", "sets"]):
            content = json.dumps({"rows": numbers.rows[:2], "include": include})
            assert client.post("/v1/predict", content=content, headers=JSON).json()["round"] == 0
        large = (numbers.rows * 4)[:2_000]
        assert post(client, "/v1/predict", large).json()["round"] == 0  # in a thread
        assert client.get("/v1/state").json()["rounds"] == 0
        assert answers == []
        process.send_signal(signal.SIGUSR1)
        learning.join()
        assert answers[0].json()["round"] == 1
        assert post(client, "/v1/predict", numbers.rows[:2]).json()["round"] == 1


def test_batches_wait_up_to_a_number_of_bytes(forks, numbers, tmp_path):
    """The learner is held: one batch is with it, one waits, and that is all the memory that batches may take."""
    answers, rows = [], numbers.rows[:300]
    with held(forks, numbers.copy(tmp_path / "model"), "queue_bytes=10_000") as (client, process):

        def learn() -> None:
            answers.append(post(client, "/v1/adapt", rows))

        threads = [threading.Thread(target=learn) for _ in range(2)]
        threads[0].start()
        wait_for(lambda: metric(client, "accous_log_sync_seconds_count") == 1, "batch in the log")
        threads[1].start()
        wait_for(lambda: metric(client, "accous_queue_depth") == 1, "batch in the queue")
        refused = post(client, "/v1/adapt", rows)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
        process.send_signal(signal.SIGUSR1)
        for thread in threads:
            thread.join()
        assert [answer.status_code for answer in answers] == [200, 200]
        assert post(client, "/v1/adapt", rows).status_code == 200


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
