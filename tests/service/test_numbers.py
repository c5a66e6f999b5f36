"""A model that predicts numbers behind the same service: numbers, intervals and late labels."""

import msgspec
import numpy as np
import polars as pl

from accous.cli import main
from accous.service.bodies import BatchReader, Limits
from accous.service.learner import Executor
from accous.service.log import Idempotency, Record
from accous.table.model import load_table_model, open_store
from tests.service.servers import content_of, run_alone, serving
from tests.waiting import wait_for


def test_numbers_have_intervals_and_late_labels(forks, tmp_path):
    random = np.random.default_rng(5)
    X = random.normal(size=(260, 2))
    y = X @ [2.0, -1.0] + 0.1 * random.normal(size=260)
    table = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "price": y})
    table[:200].write_csv(tmp_path / "reference.csv")
    fit = ["fit", str(tmp_path / "reference.csv"), "--target", "price", "-o", str(tmp_path / "fitted"), "--quiet"]
    assert main(fit) == 0
    rows, prices = table[200:].drop("price").to_dicts(), y[200:]
    alone = load_table_model(tmp_path / "fitted")
    expected = alone.predict(pl.DataFrame(rows[:20]))
    executor = Executor(alone, BatchReader(alone, Limits()), Idempotency(), open_store(alone, tmp_path / "fitted"))
    wanted = msgspec.json.encode({"rows": rows[:1], "include": ["sets"]})
    for learns_first in (False, True):  # what is refused is not learned
        record = Record("step", "application/json", wanted, learns_first=learns_first)
        assert executor.carry_out(1, record, executor.parse(record)).status_code == 422
        assert alone.model.n_rounds_ == 0
    executor.close()
    _, content = run_alone(tmp_path / "fitted", tmp_path / "model", [])
    with serving(forks, tmp_path / "model") as server:
        answer = server.post("/v1/predict", {"rows": rows[:20]}).json()
        assert answer["predictions"] == expected["prediction"].to_list()
        assert answer["intervals"] == [list(ends) for ends in expected.select("low", "high").rows()]
        labels = [{"id": one, "label": price} for one, price in zip(answer["ids"], prices.tolist(), strict=False)]
        assert server.post("/v1/labels", {"labels": labels}).json()["counted"] == 20
        assert server.post("/v1/predict", {"rows": rows[:1], "include": ["sets"]}).status_code == 422
        batches = [rows[start : start + 5] for start in range(20, 60, 5)]
        for batch in batches:
            assert len(server.step(batch)["intervals"]) == 5
        server.wait_for_rounds(len(batches))
        wait_for(lambda: server.client.get("/v1/state").json()["labelled_rows"] == 20, "labels")
        assert server.client.get("/report").status_code == 200
        assert server.client.get("/page/view").json()["headline"].count("mean absolute error") == 1
        assert server.client.get("/metrics").status_code == 200
        for path, methods in server.client.get("/openapi.json").json()["paths"].items():
            for method, operation in methods.items():
                for kind, body in operation.get("requestBody", {"content": {}})["content"].items():
                    if kind == "application/json":
                        sent = server.client.request(method, path, json=body["example"])
                        assert sent.status_code == 200, (path, sent.text)
    assert content_of(tmp_path / "model", "stored") != content
