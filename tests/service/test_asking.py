"""Which rows to label, and learning from their labels: once, with a known probability, and the same after a crash."""

import shutil

import polars as pl

from accous.cli import main
from accous.table.model import load_table_model
from tests.cli.processes import rows_of_store
from tests.service.servers import Server, content_of, serving
from tests.waiting import wait_for


def test_rows_to_label_are_chosen_once_with_a_known_probability(forks, model, numbers):
    with serving(forks, model) as server:
        ids = server.step(numbers.rows[:30])["ids"]
        named = [row | {"order": 100 + number} for number, row in enumerate(numbers.rows[30:40])]
        ids += server.post("/v1/step", {"rows": named, "key": "order"}).json()["ids"]
        server.post("/v1/adapt", {"rows": numbers.rows[40:50]})
        server.post("/v1/labels", {"labels": [{"id": each, "label": "yes"} for each in ids[:4]]})
        asked = server.post("/v1/ask", {"n": 9}, Idempotency_Key="first").json()
        assert (asked["rows"], asked["probabilities"]) == (36, [0.25] * 9)
        assert len(set(asked["ids"])) == 9
        assert set(asked["ids"]) <= set(ids[4:])
        keys = [str(100 + ids.index(each) - 30) if each in ids[30:] else None for each in asked["ids"]]
        assert asked["keys"] == keys
        assert server.post("/v1/ask", {"n": 9}, Idempotency_Key="first").json() == asked
        nothing = server.post("/v1/ask", {"n": 9}).json()
        assert (nothing["rows"], nothing["ids"], nothing["probabilities"]) == (0, [], [])
        more = server.step(numbers.rows[50:53])["ids"]
        assert server.post("/v1/ask", {"n": 9}).json()["ids"] == more
        labels = [{"id": each, "label": "no"} for each in asked["ids"]]
        assert server.post("/v1/labels", {"labels": labels}).json()["counted"] == 9
    rows = [(each[10], each[11]) for each in rows_of_store(model) if each[9] == 0.25]
    assert rows == [(1, "no")] * 9
    assert load_table_model(model).stored.asked_id > 0


def test_questions_of_another_form_are_refused(forks, model):
    with serving(forks, model) as server:
        for content in ({}, {"n": 0}, {"n": 1.5}, {"n": 10, "share": 1}, {"n": 10**9}):
            assert server.post("/v1/ask", content).status_code == 422
        assert server.client.post("/v1/ask", content="n=1", headers={"content-type": "text/csv"}).status_code == 415


def test_labels_are_counted_then_learned_from_and_a_crash_changes_nothing(forks, numbers, tmp_path):
    """Also new categories, which batches after the refit have columns for, and a class that only labels have."""
    table = pl.DataFrame(numbers.rows[:300]).with_columns(
        pl.Series("label", numbers.labels[:300]), pl.Series("kind", ["a", "b", "c"] * 100)
    )
    table.write_csv(tmp_path / "reference.csv")
    arguments = ["fit", str(tmp_path / "reference.csv"), "--label", "label", "-o", str(tmp_path / "model"), "--quiet"]
    assert main(arguments) == 0
    shutil.copytree(tmp_path / "model", tmp_path / "killed")
    batches = [
        [row | {"kind": "d" if number % 2 else "a"} for number, row in enumerate(numbers.rows[start : start + 40])]
        for start in range(300, 540, 40)
    ]
    answers: dict[str, list] = {"model": [], "killed": []}
    for name, found in answers.items():
        server = Server(forks, tmp_path / name)
        for number, rows in enumerate(batches):
            found.append(server.step(rows))
            truth = ["new" if row["kind"] == "d" else "no" for row in rows]
            labels = [{"id": each, "label": label} for each, label in zip(found[-1]["ids"], truth, strict=True)]
            may_learn = {"learn": False} if number == 1 else {}
            found.append(server.post("/v1/labels", {"labels": labels, **may_learn}).json())
            if name == "killed":
                server.kill()
                server = Server(forks, tmp_path / name)
        server.wait_for_rounds(len(batches))
        client = server.client
        wait_for(lambda client=client: client.get("/v1/state").json()["learning"]["labels"] == 200, "reading")
        view = client.get("/page/view").json()
        rows = view["learned"]["rows"]
        assert [each[:3] for each in rows][:2] == [["6", "200", "40"], ["5", "160", "40"]]
        before, after = rows[-1][4:6]
        assert float(before.rstrip("%")) > float(after.rstrip("%")), "it has recovered"
        assert server.stop() == 0
    assert answers["killed"] == answers["model"]
    learned = [each["learned"] for each in answers["model"][1::2]]
    assert learned == [40, 0, 80, 120, 160, 200]
    assert answers["model"][1]["unknown_labels"] == {"new": 20}
    assert set(answers["model"][-2]["predictions"]) == {"new", "no"}
    assert content_of(tmp_path / "killed") == content_of(tmp_path / "model")
    assert rows_of_store(tmp_path / "killed") == rows_of_store(tmp_path / "model")
