"""Kills at random moments: nothing acknowledged is lost, nothing counts twice, the bits are those of one process."""

import contextlib
import json
import resource
import shutil
import signal
import socket
from pathlib import Path

import pytest

from accous.service.bodies import BatchReader, Limits
from accous.service.learner import Executor
from accous.service.log import Idempotency, Record, open_log
from accous.table.model import load_table_model, open_store, save_table_model
from tests.cli.processes import rows_of_store
from tests.service.conftest import Fitted
from tests.service.crashes import crash
from tests.service.servers import content_of, metric, serving
from tests.waiting import PATIENCE, wait_for

LATER = ("/v1/ask", "/v1/labels")


def place_of(path: str, answer: dict) -> tuple[int, int, int]:
    """Where a request comes in the order in which all were carried out; questions have several possible places."""
    return answer["round"], LATER.index(path) if path in LATER else -1, answer.get("labelled_rows", 0)


class Alone:
    """The same model in this process, without any service."""

    def __init__(self, fitted: Fitted, folder: Path) -> None:
        self.folder = fitted.copy(folder)
        self.table_model, self.n_records = load_table_model(folder), 0
        reader, self.store = BatchReader(self.table_model, Limits()), open_store(self.table_model, folder)
        self.executor = Executor(self.table_model, reader, Idempotency(), self.store)

    def run(self, path: str, content: dict) -> dict:
        """Carry a request out; return what the service must have answered."""
        record = Record(path.rpartition("/")[2], "application/json", json.dumps(content).encode())
        self.n_records += 1
        return json.loads(self.executor.carry_out(self.n_records, record, self.executor.parse(record)).body)

    def n_free(self) -> int:
        """Return how many rows can be asked about."""
        self.executor.store_predictions()
        return self.store.served_since(self.store.position.asked_id).height

    def content(self) -> tuple[bytes, ...]:
        # As the service does at its end, which reads the error after the last round.
        self.executor.store_predictions()
        save_table_model(self.table_model, self.folder)
        return content_of(self.folder)


def check(clients, numbers, folder, alone_folder) -> None:
    """All requests, in their order, run in one process, give the same bits and the same answers."""
    sent = {key: request for client in clients for key, request in client.sent.items()}
    answers = {key: answer for client in clients for key, answer in client.acknowledged.items()}
    assert answers.keys() == sent.keys()
    in_order = sorted(answers, key=lambda key: place_of(sent[key][0], answers[key]))
    alone, questions = Alone(numbers, alone_folder), []

    def run(key: str) -> None:
        assert alone.run(*sent[key]) == answers[key], key

    def ask() -> None:
        """Labels and questions of a round come in an order that shows in the number of rows to choose from."""
        while possible := [key for key in questions if answers[key]["rows"] == alone.n_free()]:
            questions.remove(possible[0])
            run(possible[0])

    for key in in_order:
        if sent[key][0] == "/v1/ask":
            questions.append(key)
            continue
        ask()
        assert sent[key][0] == "/v1/labels" or not questions, questions
        run(key)
        ask()
    ask()
    assert not questions
    rounds = [answers[key]["round"] for key in in_order if sent[key][0] not in LATER]
    assert rounds == list(range(1, len(rounds) + 1))
    assert {path for path, _ in sent.values()} == {"/v1/step", "/v1/adapt", *LATER}
    assert content_of(folder) == alone.content()
    assert rows_of_store(folder) == rows_of_store(alone_folder)


@pytest.mark.parametrize(
    ("n_kills", "seed"), [(12, 0), pytest.param(200, 1, marks=pytest.mark.slow)], ids=["a dozen", "two hundred"]
)
def test_nothing_is_lost_and_nothing_counts_twice(forks, numbers, tmp_path, n_kills, seed):
    folder = numbers.copy(tmp_path / "model")
    clients = crash(forks, folder, numbers.rows, n_kills, seed)
    check(clients, numbers, folder, tmp_path / "alone")


def test_a_crash_between_the_save_and_the_new_log_counts_nothing_twice(forks, model, numbers, tmp_path):
    """The folder as it is at that moment: a model that contains all records of the log."""
    with serving(forks, model) as server:
        for start in range(6):
            server.step(numbers.rows[start : start + 1], Idempotency_Key=f"k{start}")
        server.kill()
    log = (model / "service" / "batches.log").read_bytes()
    with serving(forks, model) as server:
        pass
    saved = content_of(model)
    (model / "service" / "batches.log").write_bytes(log)
    with serving(forks, model) as server:
        assert server.client.get("/readyz").json()["rounds"] == 6
        assert server.step(numbers.rows[:1], Idempotency_Key="k0")["round"] == 1
    assert content_of(model) == saved


def test_a_full_disk_refuses_the_batch_and_the_model_stays(forks, model, numbers):
    """No file may grow beyond the size that the log has: what the system says then is what a full disk says."""
    with serving(forks, model) as server:
        first = server.step(numbers.rows[:1])
        limit = (model / "service" / "batches.log").stat().st_size + 10
        before = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        refused = server.post("/v1/step", {"rows": numbers.rows[1:2]}, Idempotency_Key="again")
        assert (refused.status_code, refused.json()["error"]["code"]) == (507, "not_durable")
        assert server.post("/v1/predict", {"rows": numbers.rows[:1]}).json()["round"] == 1
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, before)
        again = server.step(numbers.rows[1:2], Idempotency_Key="again")
        assert (first["round"], again["round"]) == (1, 2)
        server.kill()
    assert [record.key for _, record in open_log(model / "service" / "batches.log")[1]] == [None, "again"]
    with serving(forks, model) as server:
        assert server.client.get("/readyz").json()["rounds"] == 2


def test_a_save_that_fails_loses_nothing(forks, model, numbers):
    with serving(forks, model, "--save-batches", "2") as server:
        server.step(numbers.rows[:1])
        limit = (model / "service" / "batches.log").stat().st_size + 10_000
        before = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        for start in range(1, 6):
            server.step(numbers.rows[start : start + 1])
        assert "accous_save_failures_total 0.0" not in server.client.get("/metrics").text
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, before)
        server.kill()
    with serving(forks, model) as server:
        assert server.client.get("/readyz").json()["rounds"] == 6


def test_the_log_of_another_model_is_not_run(forks, model, numbers, tmp_path):
    """Somebody fits again into the same folder: the batches of the old model are set aside."""
    with serving(forks, model) as server:
        server.step(numbers.rows[:3])
        server.kill()
    service = model / "service"
    fresh = tmp_path / "fresh"
    shutil.copytree(numbers.folder, fresh)
    shutil.copytree(service, fresh / "service")
    with serving(forks, fresh) as server:
        assert server.client.get("/readyz").json()["rounds"] == 0
    assert len(list((fresh / "service").glob("batches.log.*"))) == 1
    assert "another model" in server.stderr


def test_a_signal_ends_it_after_all_answers(forks, model, numbers):
    """Batches that the learner works on when the signal comes are learned from, answered and saved."""
    content = json.dumps({"rows": (numbers.rows * 10)[:6_000]}).encode()
    head = b"POST /v1/adapt HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with serving(forks, model) as server, contextlib.ExitStack() as stack:
        raws = []
        for _ in range(6):
            raws.append(stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)))
            raws[-1].sendall(head % len(content) + content)
        wait_for(lambda: metric(server, "accous_log_sync_seconds_count") >= 1, "batch in the log")
        server.process.send_signal(signal.SIGTERM)
        answers = [raw.makefile("rb").read() for raw in raws]
        assert server.process.wait() == 0
    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers), answers
    assert load_table_model(model).model.n_rounds_ == 6
    assert open_log(model / "service" / "batches.log")[1] == []
