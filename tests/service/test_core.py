"""Predict, learn, count labels and look, over real HTTP; the numbers are those of the same model without a service."""

import asyncio
import io
import json
import re
from concurrent.futures import ThreadPoolExecutor

import httpx
import polars as pl
import pytest
from starlette.requests import Request

from accous.service.app import Intake, Service
from accous.service.bodies import CONTENT_TYPES, BatchReader, HttpError, Limits, ResponseOptions
from accous.service.interface import Gate, Tokens
from accous.service.live import Metrics
from accous.table.model import load_table_model
from tests.service.servers import content_of, run_alone, serving
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def server(forks, numbers, tmp_path_factory):
    """A server that tests share: they may learn, but not depend on the round."""
    with serving(forks, numbers.copy(tmp_path_factory.mktemp("shared") / "model")) as running:
        yield running


def test_predictions_are_those_of_the_model_and_nothing_is_learned(server, numbers):
    before = server.client.get("/readyz").json()["rounds"]
    rows = numbers.rows[:7]
    wanted = ["ids", "probabilities", "ratio", "sets"]
    answer = server.post("/v1/predict", {"rows": rows, "include": wanted, "alpha": 0.2}).json()
    if before == 0:
        alone = load_table_model(numbers.folder)
        expected = alone.predict(pl.DataFrame(rows))
        assert answer["predictions"] == expected["prediction"].to_list()
        assert answer["probabilities"] == [list(row) for row in expected.select("p_no", "p_yes").rows()]
        assert answer["ratio"] == expected["ratio"].to_list()
        sets = alone.model.predict_set(alone.prepare(pl.DataFrame(rows)).X, alpha=0.2)
        assert [len(each) for each in answer["sets"]] == sets.sum(axis=1).tolist()
    assert all(found in each for found, each in zip(answer["predictions"], answer["sets"], strict=True))
    assert answer["classes"] == ["no", "yes"]
    assert len(set(answer["ids"])) == 7
    assert server.client.get("/readyz").json()["rounds"] == before


@pytest.mark.parametrize("kind", CONTENT_TYPES[1:])
def test_csv_and_arrow_say_the_same_as_json(server, numbers, kind):
    frame = pl.DataFrame(numbers.rows[:5])
    content = io.BytesIO()
    if kind == "text/csv":
        frame.write_csv(content)
    elif kind.endswith("stream"):
        frame.write_ipc_stream(content)
    else:
        frame.write_ipc(content)
    options = {"include": "probabilities,ratio"}
    headers = {"content-type": f"{kind}; charset=utf-8"}
    other = server.client.post("/v1/predict", params=options, content=content.getvalue(), headers=headers)
    same = server.post("/v1/predict", {"rows": numbers.rows[:5], "include": ["probabilities", "ratio"]})
    assert other.json() == same.json()


def test_steps_are_those_of_the_command_line_bit_for_bit(forks, mixed, tmp_path):
    """Rows with categories, dates and gaps: answers, history and saved state equal those without a service."""
    folder, batches = mixed.copy(tmp_path / "model"), [mixed.rows[start : start + 5] for start in range(0, 100, 5)]
    with serving(forks, folder) as server:
        answers = [server.step(rows) for rows in batches]
        server.client.post(
            "/v1/predict", content=json.dumps({"rows": batches[0]}), headers={"content-type": "application/json"}
        )
        server.wait_for_rounds(len(batches))
    assert server.process.returncode == 0
    alone, content = run_alone(mixed.folder, tmp_path / "alone", batches)
    assert content_of(folder, "stored") == content
    assert [answer["round"] for answer in answers] == list(range(1, 21))
    again = load_table_model(mixed.folder)
    expected = [again.step(pl.DataFrame(rows, infer_schema_length=None))["prediction"].to_list() for rows in batches]
    assert [answer["predictions"] for answer in answers] == expected
    assert alone.model.n_rounds_ == 20


def test_adapt_learns_what_step_learns(forks, numbers, tmp_path):
    contents = []
    for path in ("/v1/adapt", "/v1/step"):
        folder = numbers.copy(tmp_path / path.rpartition("/")[2])
        with serving(forks, folder) as server:
            for start in range(0, 20, 2):
                answer = server.post(path, {"rows": numbers.rows[start : start + 2]})
                assert answer.json()["round"] == start // 2 + 1
        contents.append(content_of(folder, "stored"))
    assert contents[0] == contents[1]


def test_the_state_is_what_the_model_says_of_itself(forks, model, numbers):
    with serving(forks, model) as server:
        for start in range(20):
            server.step(numbers.rows[start : start + 1])
        state = server.wait_for_rounds(20)
        by = server.client.get("/v1/state", params={"by": "x0"}).json()
        refused = server.client.get("/v1/state", params={"by": "colour"})
    saved = load_table_model(model).snapshot()
    said = json.loads(json.dumps(saved.to_json()))
    segments = json.loads(json.dumps(saved.to_json(by="x0")["segments"]))
    assert by == state | {"segments": segments}
    assert len(segments) == 4
    assert refused.status_code == 422
    assert "'colour'" in refused.json()["error"]["message"]
    said["advice"]["command"] = said["advice"]["command"].replace("MODEL", "model")
    assert {name: state[name] for name in said} == said
    own = {name: state[name] for name in state if name not in said}
    assert own.pop("effective_rows") > 100
    assert own == {
        "name": "model",
        "label": "label",
        "task": "classification",
        "reference_rows": 200,
        "as_of_round": 20,
        "last_drift_round": 0,
        "labelled_rows": 0,
        "findings": [],
    }


def test_the_history_goes_on_from_a_round(forks, model, numbers):
    with serving(forks, model) as server:
        for start in range(12):
            server.step(numbers.rows[start : start + 1])
        server.wait_for_rounds(12)
        everything = server.client.get("/v1/history").json()
        later = server.client.get("/v1/history", params={"since": 9}).json()
    assert everything["round"] == list(range(1, 13))
    assert later["round"] == [10, 11, 12]
    assert later["n_rows"] == everything["n_rows"][9:]
    assert sum(everything["n_rows"]) == 12


def test_labels_come_by_id_and_by_key_and_count_once(forks, model, numbers):
    with serving(forks, model) as server:
        rows = [row | {"order": number} for number, row in enumerate(numbers.rows[:30])]
        stepped = server.post("/v1/step", {"rows": rows, "key": "order"}).json()
        predicted = server.post("/v1/predict", {"rows": numbers.rows[30:40]}).json()
        by_id = [{"id": one, "label": label} for one, label in zip(predicted["ids"], numbers.labels[30:], strict=False)]
        counted = server.post("/v1/labels", {"labels": by_id}).json()
        assert (counted["counted"], counted["unmatched"]) == (10, 0)
        again = server.post("/v1/labels", {"labels": by_id}).json()
        assert (again["counted"], again["counted_before"]) == (0, 10)
        by_key = [
            {"key": float(number), "label": numbers.labels[number], "row": numbers.rows[number]} for number in range(30)
        ]
        counted = server.post("/v1/labels", {"labels": [*by_key, {"key": 99, "label": "no"}]}).json()
        assert (counted["counted"], counted["unmatched"], counted["labelled_rows"]) == (30, 1, 40)
        assert stepped["predictions"]
        wait_for(lambda: server.client.get("/v1/state").json()["n_labels"] == 40, "reading of the labels")
        state = server.client.get("/v1/state").json()
    pairs = list(zip(stepped["predictions"], numbers.labels, strict=False))
    pairs += list(zip(predicted["predictions"], numbers.labels[30:], strict=False))
    wrong = sum(one != other for one, other in pairs) / 40
    # All rows of the stream have labels, so that these decide; what is expected tempers them a little.
    assert (state["basis"], state["n_labels"]) == ("labels", 40)
    assert state["value"] == pytest.approx(wrong, abs=0.02)


def test_labels_that_the_reference_does_not_have_are_named(server, numbers):
    ids = server.post("/v1/predict", {"rows": numbers.rows[:3]}).json()["ids"]
    labels = [{"id": one, "label": label} for one, label in zip(ids, ["yes", "Yse", None], strict=True)]
    counted = server.post("/v1/labels", {"labels": labels}).json()
    assert (counted["counted"], counted["unknown_labels"]) == (2, {"Yse": 1})
    # Where no prediction is found, nothing counts as an error.
    counted = server.post("/v1/labels", {"labels": [{"id": "p0.0.0", "label": "Yse"}]}).json()
    assert (counted["unmatched"], counted["unknown_labels"]) == (1, {})


def test_predict_keeps_nothing_and_says_so(server, numbers):
    """Labels by a key would find nothing later: the request is refused, not half done."""
    rows = [row | {"order": number} for number, row in enumerate(numbers.rows[:2])]
    refused = server.post("/v1/predict", {"rows": rows, "key": "order"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "key_not_kept")
    content = pl.DataFrame(rows).write_csv()
    headers = {"content-type": "text/csv"}
    assert server.client.post("/v1/predict?key=order", content=content, headers=headers).status_code == 422


def test_sets_are_of_the_round_of_the_predictions(numbers, monkeypatch):
    """Rounds are learned between the two: sets, probabilities and the round still belong together."""
    table_model = load_table_model(numbers.folder)
    reader, metrics = BatchReader(table_model, Limits()), Metrics()
    service = Service(name="m", reader=lambda: reader, limits=Limits(), gate=Gate(Tokens()), metrics=metrics)
    batch = reader.read_rows(numbers.rows[:200], ResponseOptions(include=("sets", "probabilities"), alpha=0.3))
    before = service.predicted(reader, batch)
    far = pl.DataFrame([row | {"x0": row["x0"] + 3.0} for row in numbers.rows[:20]])
    monkeypatch.setattr(metrics.predicted_rows, "inc", lambda _: [table_model.step(far) for _ in range(12)])
    assert service.predicted(reader, batch) == before
    monkeypatch.undo()
    assert service.predicted(reader, batch)["sets"] != before["sets"]


def test_ids_of_another_model_and_mistyped_ones_are_not_counted(server, numbers):
    good = server.post("/v1/predict", {"rows": numbers.rows[:1]}).json()["ids"][0]
    bad = good[:-1] + ("0" if good[-1] != "0" else "1")
    labels = [{"id": bad, "label": "yes"}, {"id": "p1.0.3.eWVz.00000000", "label": "no"}]
    assert server.post("/v1/labels", {"labels": labels}).json()["unmatched"] == 2


def test_a_repeated_request_counts_once_and_gets_the_first_answer(forks, model, numbers):
    with serving(forks, model) as server:
        first = server.post("/v1/step", {"rows": numbers.rows[:2]}, Idempotency_Key="one")
        server.step(numbers.rows[2:4])
        again = server.post("/v1/step", {"rows": numbers.rows[:2]}, Idempotency_Key="one")
        assert (again.content, again.headers["idempotent-replayed"]) == (first.content, "true")
        other = server.post("/v1/step", {"rows": numbers.rows[4:6]}, Idempotency_Key="one")
        assert (other.status_code, other.json()["error"]["code"]) == (422, "key_reused")
        server.kill()
    with serving(forks, model) as server:
        assert server.client.get("/readyz").json()["rounds"] == 2
        assert server.post("/v1/step", {"rows": numbers.rows[:2]}, Idempotency_Key="one").content == first.content
        assert server.stop() == 0
    with serving(forks, model) as server:  # now from what is kept, not from the log
        assert server.post("/v1/step", {"rows": numbers.rows[:2]}, Idempotency_Key="one").content == first.content
        assert server.client.get("/readyz").json()["rounds"] == 2


def test_one_process_owns_the_folder(forks, server):
    done = forks.run("accous", "serve", server.folder, "--port", "0", check=1)
    assert "by process" in done.stderr
    assert "accous serve" in done.stderr
    done = forks.run("accous", "adapt", server.folder, "-", check=1)
    assert "by process" in done.stderr


def test_a_port_that_is_taken_is_said_in_a_sentence(forks, server, model):
    done = forks.run("accous", "serve", model, "--port", server.port, check=1)
    assert done.stderr.count("\n") == 1
    assert done.stderr.count("\n") == 1


def test_learn_first_learns_before_it_predicts(forks, numbers, tmp_path):
    folder = numbers.copy(tmp_path / "model")
    batches = [
        [row | {"x0": row["x0"] + 3.0} for row in numbers.rows[start : start + 20]] for start in range(0, 240, 20)
    ]
    first, later, has_differed = load_table_model(folder), load_table_model(folder), False
    with serving(forks, folder, "--learn-first") as server:
        for rows in batches:
            answer = server.post("/v1/step", {"rows": rows, "include": ["ratio"]}).json()
            expected = first.step(pl.DataFrame(rows), learns_first=True)["ratio"].to_list()
            other = later.step(pl.DataFrame(rows))["ratio"].to_list()
            assert answer["ratio"] == expected
            has_differed |= expected != other
    assert has_differed


def test_a_client_of_http_1_0_is_answered(server):
    answer = httpx.get(f"{server.address}/healthz", headers={"connection": "close"}, trust_env=False)
    assert answer.json() == {"status": "alive"}


def test_the_time_of_a_body_begins_once():
    """Pieces that come in time, one by one, do not make a body that is in time."""

    async def receive():
        await asyncio.sleep(0.04)
        return {"type": "http.request", "body": b"a", "more_body": True}

    request = Request({"type": "http", "headers": []}, receive)
    with pytest.raises(HttpError) as refused:
        asyncio.run(Intake(Limits(body_seconds=0.1)).read(request, len))
    assert refused.value.status == 408


def test_predictions_in_many_threads_have_ids_of_their_own(numbers):
    """A number that two of them took would make one label of two."""
    table_model = load_table_model(numbers.folder)
    reader = BatchReader(table_model, Limits())
    service = Service(name="m", reader=lambda: reader, limits=Limits(), gate=Gate(Tokens()), metrics=Metrics())
    batch = reader.read_rows(numbers.rows[:1], ResponseOptions())
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: service.predicted(reader, batch)["ids"][0], range(40)))
    assert len(set(found)) == 40


def test_the_page_claims_nothing_while_it_loads_and_nothing_of_rows_that_have_not_come(forks, model):
    with serving(forks, model) as server:
        loading = server.client.get("/").text
        view = server.client.get("/page/view").json()
        state, metrics = server.client.get("/v1/state").json(), server.client.get("/metrics").text
    assert (state["state"], [each["code"] for each in state["reasons"]]) == (None, ["no_rows"])
    assert "accous_state{" not in metrics
    assert '<div id="shown" hidden>' in loading
    assert not re.search("healthy|degraded|uncertain|%", loading)
    assert {name: view[name] for name in ("state", "tone", "alarm", "reasons")} == {
        "state": "no rows yet",
        "tone": "none",
        "alarm": "",
        "reasons": [],
    }
