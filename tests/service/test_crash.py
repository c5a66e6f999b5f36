"""Kills at random moments: nothing acknowledged is lost, nothing counts twice, the bits are those of one process."""

import resource
import shutil
import signal
import struct
import threading

import polars as pl
import pytest

from accous.service.batch_log import open_log
from accous.tabular.folder import load_table_model
from tests.service.crashes import crash
from tests.service.servers import content_of, played_alone, serving


def check(clients, numbers, folder, alone_folder) -> None:
    """All batches, in the order of their rounds, played in one process, give the same bits and the same answers."""
    sent = {key: rows for client in clients for key, rows in client.sent.items()}
    answers = {key: answer for client in clients for key, answer in client.acknowledged.items()}
    assert answers.keys() == sent.keys()
    in_order = sorted(answers, key=lambda key: answers[key]["round"])
    assert [answers[key]["round"] for key in in_order] == list(range(1, len(in_order) + 1))
    alone, content = played_alone(numbers.folder, alone_folder, [sent[key] for key in in_order])
    assert alone.model.n_rounds_ == len(in_order)
    assert content_of(folder) == content
    again = load_table_model(numbers.folder)
    for key in in_order:
        assert again.step(pl.DataFrame(sent[key]))["prediction"].to_list() == answers[key]["predictions"]


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


def test_a_torn_last_record_is_cut_off_and_reported(forks, model, numbers):
    with serving(forks, model) as server:
        server.step(numbers.rows[:1])
        server.kill()
    with (model / "service" / "batches.log").open("ab") as file:
        file.write(struct.pack("<IQ", 1000, 1) + b"half")
    with serving(forks, model) as server:
        assert server.client.get("/readyz").json()["rounds"] == 1
        assert server.step(numbers.rows[1:2])["round"] == 2
    assert "Cut off 16 bytes at the end of the log" in server.stderr
    assert "Learned again from 1 batches of the log" in server.stderr


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
    assert [record.key for _, record in open_log(model / "service" / "batches.log").records] == [None, "again"]
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


def test_the_log_of_another_model_is_not_played(forks, model, numbers, tmp_path):
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
    assert "belongs to another model" in server.stderr


def test_damage_before_the_end_of_the_log_stops_the_start(forks, model, numbers):
    with serving(forks, model) as server:
        for start in range(3):
            server.step(numbers.rows[start : start + 1])
        server.kill()
    path = model / "service" / "batches.log"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    done = forks.run("accous", "serve", model, "--port", "0", check=1)
    assert "batches.log is damaged at byte 59" in done.stderr
    assert path.read_bytes() == bytes(content)


def test_a_signal_ends_it_after_all_answers(forks, model, numbers):
    answers: list[int] = []
    with serving(forks, model) as server:
        rows = numbers.rows[:50]

        def send() -> None:
            answers.append(server.step(rows)["round"])

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait() == 0
    assert sorted(answers) == list(range(1, 9))
    table_model = load_table_model(model)
    assert table_model.model.n_rounds_ == 8
    assert open_log(model / "service" / "batches.log").records == []
