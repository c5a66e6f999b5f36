"""`accous labels`: late labels are joined with the predictions by key, line or position, and each counts once."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from accous.cli import main
from accous.table.model import load_table_model
from tests.cli.late_labels import N_ROWS, adapt, expected_error, labels, run, run_json, run_remarks, write

pytestmark = pytest.mark.usefixtures("predicted_folder")


@pytest.mark.parametrize("name", ["labels.csv", "labels.tsv", "labels.jsonl", "labels.parquet"])
@pytest.mark.parametrize("key", [["--key", "id"], []], ids=["by key", "by line"])
def test_labels_of_every_format_are_joined_by_key_or_by_line(name, key, capsys):
    found = run_json(capsys, write(labels() if key else labels().drop("id"), name), *key)
    assert (found["counted"], found["unmatched"]) == (N_ROWS, 0)
    assert found["measured_error"] == pytest.approx(expected_error(labels()))
    assert found["measured_error_fixed"] is not None
    is_wrong = pl.read_csv("predictions.csv")["prediction"] != labels()["label"]
    assert (found["measured_error_plain"], found["measured_error_plain_rows"]) == (is_wrong.mean(), N_ROWS)
    assert found["concept_changed"] == "no"


def test_labels_in_a_column_of_another_name_are_told(capsys):
    renamed = write(labels(0, 1, 2).rename({"label": "bought"}))
    assert "Joined by key id (labels in column 'bought')." in run_remarks(capsys, renamed, "--key", "id")
    assert "Joined by key id." in run_remarks(capsys, write(labels(3, 4)), "--key", "id")


def test_an_array_of_labels_is_joined_by_line(capsys):
    found = run_json(capsys, write(labels(), "labels.npy"))
    assert found["measured_error"] == pytest.approx(expected_error(labels()))


def test_some_labels_in_any_order_are_joined_by_key(capsys):
    some = labels(250, 3, 17, 4)
    found = run_json(capsys, write(some), "--key", "id")
    assert found["counted"] == 4
    assert found["measured_error"] == pytest.approx(expected_error(some))


def test_line_numbers_name_rows_of_the_stream(capsys):
    # Line 1 of the stream is its header.
    some = labels(250, 3, 17).with_columns(line=pl.Series([252, 5, 19]))
    expected = expected_error(some)
    pl.read_csv("predictions.csv").with_columns(line=pl.int_range(2, N_ROWS + 2)).write_csv("predictions.csv")
    found = run_json(capsys, write(some.select("line", "label")))
    assert (found["counted"], found["unmatched"]) == (3, 0)
    assert found["measured_error"] == pytest.approx(expected)


def test_a_column_of_another_name_holds_the_labels(capsys):
    frame = labels().rename({"label": "truth"}).with_columns(note=pl.lit("x"))
    assert "has no column 'label'" in run(capsys, write(frame), "--key", "id", code=2)
    assert run_json(capsys, "labels.csv", "--key", "id", "--label", "truth")["counted"] == N_ROWS


def test_a_label_counts_once_however_it_is_given_again(capsys):
    first = run_json(capsys, write(labels(*range(200))), "--key", "id")
    again = run_json(capsys, "labels.csv", "--key", "id")
    assert (again["counted"], again["counted_before"]) == (0, 200)
    assert again["labelled_rows"] == first["labelled_rows"] == 200
    by_line = run_json(capsys, write(labels().drop("id"), "all.csv"))
    assert (by_line["counted"], by_line["counted_before"], by_line["labelled_rows"]) == (100, 200, 300)
    capsys.readouterr()
    main(["labels", "model", "labels.csv", "--key", "id"])
    assert "Nothing new" in capsys.readouterr().err


def test_labels_without_a_prediction_or_without_a_value_are_named(capsys):
    frame = pl.concat([labels(0, 1), pl.DataFrame({"id": [7_000, 2], "label": ["yes", None]}), labels(1)])
    write(frame)
    capsys.readouterr()
    assert main(["labels", "model", "labels.csv", "--key", "id"]) == 0
    remarks = capsys.readouterr().err
    assert "1 label has no prediction; the first is '7000'." in remarks
    assert "1 row repeats a label." in remarks
    assert "1 row has no label." in remarks
    assert load_table_model(Path("model")).model.measured_.n_labelled == 2


@pytest.mark.parametrize("command", ["labels", "extend"])
def test_rows_without_a_key_are_not_rows_without_a_label(command, capsys):
    frame = labels().with_columns(id=pl.when(pl.col("id") < 20).then(None).otherwise("id"))
    write(frame.with_columns(label=pl.when(pl.col("id") == 30).then(None).otherwise("label")))
    capsys.readouterr()
    assert main([command, "model", "labels.csv", "--key", "id", "--json"]) == 0
    printed = capsys.readouterr()
    assert "20 rows have no id." in printed.err
    assert "1 row has no label." in printed.err
    found = json.loads(printed.out)
    assert (found["without_key"], found["without_label"]) == (20, 1)


def test_classes_that_the_reference_does_not_have_are_counted_by_name(capsys):
    frame = labels().with_columns(label=pl.when(pl.col("id") < 40).then(pl.lit("perhaps")).otherwise("label"))
    assert "Classes that the reference does not have: perhaps (40)." in run(capsys, write(frame), "--key", "id")
    found = run_json(capsys, "labels.csv", "--key", "id")
    assert found["unseen_classes"] == {"perhaps": 40}
    assert found["concept_changed"] == "yes"


def test_labels_opposite_to_the_predictions_contradict_the_estimate(capsys):
    opposite = pl.col("prediction").replace_strict({"yes": "no", "no": "yes"})
    flipped = pl.read_csv("predictions.csv").select("id", label=opposite)
    assert "They contradict each other" in run(capsys, write(flipped), "--key", "id")
    assert run_json(capsys, "labels.csv", "--key", "id")["labels_contradict"] is True
    capsys.readouterr()
    assert main(["inspect", "model", "--quiet"]) == 0
    text = capsys.readouterr().out
    assert "by 300 labels (those given last count most); contradicts the estimate" in text
    assert "100.0%, 300 labels (above, a label counts half after 500 more)" in text


def test_an_alert_fires_for_labels_that_contradict_where_the_verdict_is_no_overlap(capsys):
    far = pl.read_csv("stream.csv").with_columns(x0=pl.col("x0") + 50.0)
    far.write_csv("far.csv")
    adapt("far.csv", "far_predictions.csv", "--keep", "id")
    opposite = pl.col("prediction").replace_strict({"yes": "no", "no": "yes"})
    run(capsys, write(pl.read_csv("far_predictions.csv").select("id", label=opposite)), "--key", "id")
    assert main(["inspect", "model", "--fail-if", "verdict == contradicted"]) == 0
    assert main(["inspect", "model", "--fail-if", "predictions == no"]) == 3
    reason = json.loads(capsys.readouterr().out)["reason"]
    assert reason.startswith(
        "The answer about the predictions is 'no'. By 300 labels (those given last count most), the error is "
    )
    assert main(["inspect", "model", "--quiet"]) == 0
    assert "no overlap, and labels contradict the error estimated without them" in capsys.readouterr().out


def test_the_report_draws_what_late_labels_measured_over_the_rounds(capsys):
    run(capsys, write(labels()), "--key", "id")
    model = load_table_model(Path("model"))
    is_wrong = pl.read_csv("predictions.csv").select("round", is_wrong=pl.col("prediction") != labels()["label"])
    by_round = is_wrong.group_by("round", maintain_order=True).agg(pl.len(), pl.sum("is_wrong"))
    assert model.history.column("n_late").tolist() == by_round["len"].to_list()
    assert model.history.column("late_loss").tolist() == by_round["is_wrong"].to_list()
    assert main(["report", "model", "-o", "report.html"]) == 0
    assert "in use, measured with late labels" in Path("report.html").read_text()
    run(capsys, "labels.csv", "--key", "id")
    assert load_table_model(Path("model")).history.column("n_late").sum() == N_ROWS


@pytest.mark.parametrize("becomes", ["gone", "another table", "empty"])
def test_counts_are_kept_if_the_stream_cannot_be_read_again(becomes, capsys):
    write(labels())
    stream = pl.read_csv("stream.csv")
    Path("stream.csv").unlink()
    if becomes == "another table":
        stream.reverse().write_csv("stream.csv")
    if becomes == "empty":
        Path("stream.csv").touch()
    found = run_json(capsys, "labels.csv")
    assert (found["counted"], found["measured_error_fixed"], found["concept_changed"]) == (N_ROWS, None, "not known")
    assert found["measured_error"] is not None


def test_a_row_that_a_killed_run_has_begun_to_write_is_not_read(capsys):
    with Path("predictions.csv").open("a") as file:
        file.write("300,61,ye")
    assert run_json(capsys, write(labels()))["counted"] == N_ROWS


def test_rows_that_were_set_aside_need_a_key(capsys):
    lines = Path("stream.csv").read_text().splitlines()
    lines[5] = lines[5] + ",one field too many"
    Path("broken.csv").write_text("\n".join(lines))
    adapt = ["adapt", "model", "broken.csv", "-o", "other.csv", "--keep", "id", "--on-bad-row", "skip", "--quiet"]
    assert main(adapt) == 0
    pl.read_csv("other.csv").drop("line", strict=False).write_csv("other.csv")
    assert "join by a column that is in both files" in run(capsys, write(labels()), code=1)
    found = run_json(capsys, write(labels()), "--key", "id")
    assert (found["counted"], found["unmatched"]) == (N_ROWS - 1, 1)


def test_estimates_are_those_of_the_rounds_in_which_the_rows_were_predicted(capsys):
    history = load_table_model(Path("model")).history
    rounds = pl.read_csv("predictions.csv")["round"].to_numpy()
    early = np.flatnonzero(rounds <= 10)
    found = run_json(capsys, write(labels(*early.tolist())), "--key", "id")
    weights = 0.5 ** (np.arange(len(early) - 1, -1, -1) / 500)
    expected = np.average(history.column("risk")[rounds[early] - 1], weights=weights)
    assert found["estimated_error"] == pytest.approx(expected)


def test_labels_in_the_stream_itself_count_in_the_same_record(capsys):
    assert main(["adapt", "model", "stream.csv", "-o", "scored.csv", "--label", "label", "--quiet"]) == 0
    table_model = load_table_model(Path("model"))
    assert table_model.model.measured_.n_labelled == table_model.job.n_scored == N_ROWS
    predictions = pl.read_csv("scored.csv")
    is_wrong = (predictions["prediction"] != labels()["label"]).to_numpy()
    weights = 0.5 ** (np.arange(N_ROWS - 1, -1, -1) / 500)
    assert table_model.model.measured_.error == pytest.approx(np.average(is_wrong, weights=weights))
    assert "must not count twice" in run(capsys, write(labels()), code=1)


def test_a_run_goes_on_as_before_after_labels_were_counted(capsys):
    more = pl.concat([pl.read_csv("stream.csv"), pl.read_csv("stream.csv")])
    write(labels())
    shutil.copytree("model", "other")
    predictions = Path("predictions.csv").read_bytes()
    more.write_csv("stream.csv")
    adapt = ["stream.csv", "-o", "predictions.csv", "--keep", "id", "--quiet"]
    assert main(["adapt", "other", *adapt]) == 0
    expected = Path("predictions.csv").read_bytes()
    Path("predictions.csv").write_bytes(predictions)
    run_json(capsys, "labels.csv", "--key", "id")
    assert main(["adapt", "model", *adapt]) == 0
    assert Path("predictions.csv").read_bytes() == expected
    assert load_table_model(Path("model")).model.measured_.n_labelled == N_ROWS
    shutil.rmtree("other")


def test_a_run_that_replaces_the_predictions_of_another_has_labels_of_its_own(capsys):
    write(labels())
    assert run_json(capsys, "labels.csv", "--key", "id")["counted"] == N_ROWS
    pl.read_csv("stream.csv").reverse().write_csv("second.csv")
    adapt("second.csv", "predictions.csv", "--keep", "id", "--force")
    found = run_json(capsys, "labels.csv", "--key", "id")
    assert (found["counted"], found["counted_before"], found["labelled_rows"]) == (N_ROWS, 0, 2 * N_ROWS)
    assert run_json(capsys, "labels.csv", "--key", "id")["counted"] == 0


def test_rounds_with_labels_read_the_estimate_more_often(capsys):
    def longest_gap(first_round: int) -> int:
        history = load_table_model(Path("model")).history
        read = history.rounds[~np.isnan(history.column("risk"))]
        return int(np.diff([first_round, *read[read > first_round], history.n_rounds]).max())

    for options, is_rare in (([], True), (["--label", "label"], False)):
        n_before = load_table_model(Path("model")).history.n_rounds
        adapt("stream.csv", f"rare-{is_rare}.csv", "--batch-size", "2", *options)
        assert (longest_gap(n_before) > 9) is is_rare


def test_labels_are_not_compared_with_an_estimate_that_is_far_away(capsys):
    predictions = pl.read_csv("predictions.csv")
    write(labels())
    predictions.with_columns(round=pl.lit(5_000)).write_csv("predictions.csv")
    found = run_json(capsys, "labels.csv", "--key", "id")
    assert found["counted"] == N_ROWS
    assert found["estimated_error"] is None
    assert found["labels_contradict"] is None


def test_labels_that_differ_from_those_counted_before_are_named_and_change_nothing(capsys):
    first = run_json(capsys, write(labels()), "--key", "id")
    other = pl.col("label").replace_strict({"yes": "no", "no": "yes"})
    changed = labels().with_columns(label=pl.when(pl.col("id") < 7).then(other).otherwise("label"))
    remarks = run_remarks(capsys, write(changed, "changed.csv"), "--key", "id")
    assert "7 labels differ from what was counted before, which stays." in remarks
    again = run_json(capsys, "changed.csv", "--key", "id")
    assert (again["counted"], again["counted_before"], again["differing"]) == (0, N_ROWS, 7)
    assert again["measured_error"] == first["measured_error"]
    assert "differ" not in run_remarks(capsys, "labels.csv", "--key", "id")
