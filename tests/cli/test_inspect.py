"""`accous inspect` shows what the last save wrote, at once; where that is not there, what the model itself says."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from accous.cli import main
from accous.cli.inspect import _estimate
from accous.table.model import load_table_model, save_table_model
from accous.table.summary import read_table_model_summary, summarize_table_model
from tests.cli.processes import ENVIRONMENT
from tests.cli.tables import make_tables

ADAPT = ["adapt", "model", "stream.csv", "-o", "predictions.csv", "--quiet"]
NOT_NEEDED = {"numpy", "scipy", "sklearn", "numba", "polars", "pandas", "plotly", "matplotlib", "pooch"}
FORMS: list[list[str]] = [[], ["--json"], ["--fail-if", "error > 100%"]]
LOADED = """
import json, sys
from accous.cli import main
for options in json.loads(sys.argv[1]):
    assert main(["inspect", "model", *options]) == 0
    print(end="<end>")
print(*sys.modules, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def _fitted(tmp_path_factory):
    """A stream and a model, fitted once; the tests work on copies."""
    folder = tmp_path_factory.mktemp("fitted")
    reference, stream = make_tables(n_rounds=20)
    reference.write_csv(folder / "reference.csv")
    stream.write_csv(folder / "stream.csv")
    fit = ["fit", str(folder / "reference.csv"), "--label", "label", "--drop", "id", "-o", str(folder / "model"), "-q"]
    assert main(fit) == 0
    return folder


@pytest.fixture(autouse=True)
def _model(_fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    shutil.copytree(_fitted, tmp_path, dirs_exist_ok=True)


def rewrite_manifest(**changes) -> None:
    """Change the manifest as somebody would who knows its checksum; None removes an entry."""
    path = Path("model/manifest.json")
    content = {**json.loads(path.read_text()), **changes}
    content = {key: value for key, value in content.items() if value is not None and key != "checksum"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    content["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(content))


def shown(capsys, *options: str) -> str:
    capsys.readouterr()
    assert main(["inspect", "model", *options]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("is_adapted", [pytest.param(False, marks=pytest.mark.slow), True], ids=["fit", "adapt"])
def test_a_finished_model_is_shown_without_a_numerical_library(is_adapted, capsys):
    assert not is_adapted or main(ADAPT) == 0
    command = [sys.executable, "-c", LOADED, json.dumps(FORMS)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    loaded = {name.partition(".")[0] for name in run.stderr.split()}
    assert "accous" in loaded
    assert not loaded & NOT_NEEDED
    rewrite_manifest(summary=None)
    assert [*(shown(capsys, *options) for options in FORMS), ""] == run.stdout.split("<end>")


def test_the_record_is_what_the_saved_model_says_itself():
    assert main([*ADAPT, "--label", "label"]) == 0
    found = read_table_model_summary(Path("model"))
    assert found is not None
    assert found == json.loads(json.dumps(summarize_table_model(load_table_model(Path("model")))))
    assert found["state"]["rounds"] == load_table_model(Path("model")).model.n_rounds_ == 10


def test_a_save_in_the_middle_of_a_run_says_nothing_and_inspect_asks_the_model(capsys):
    before = json.loads(shown(capsys, "--json"))
    table_model = load_table_model(Path("model"))
    table_model.model.adapt(table_model.model.reference_[:40])
    save_table_model(table_model, Path("model"))
    assert read_table_model_summary(Path("model")) is None
    after = json.loads(shown(capsys, "--json"))
    assert (before["rounds"], after["rounds"]) == (0, 1)


def test_a_run_that_stopped_at_a_bad_row_has_a_record_of_where_it_stopped(tmp_path):
    lines = (tmp_path / "stream.csv").read_text().splitlines(keepends=True)
    (tmp_path / "stream.csv").write_text("".join([*lines[:52], "1,2\n"]))
    assert main(ADAPT) == 1
    found = read_table_model_summary(Path("model"))
    assert found is not None
    assert found["state"]["rounds"] == 5
    assert not found["state"]["last_run"]["finished"]


def row_of(printed: str, name: str) -> list[str]:
    """Return the lines of a row of the table."""
    cells = [line.split("│")[1:3] for line in printed.splitlines() if line.startswith("│")]
    names = [cell[0].strip() for cell in cells]
    start = names.index(name)
    rest = takewhile(lambda place: place == start or not names[place], range(start, len(names)))
    return [cells[place][1].strip() for place in rest]


def test_the_three_main_lengths_of_the_history_are_shown_largest_first(capsys):
    assert main(ADAPT) == 0
    manifest = json.loads(Path("model/manifest.json").read_text())
    state = manifest["summary"]["state"]
    state["weight_of_interval_length"] = {"4": 0.05, "8": 0.3, "16": 0.2, "32": 0.05, "1024": 0.4}
    rewrite_manifest(summary=manifest["summary"])
    assert row_of(shown(capsys), "history in use") == ["mainly 1,024 rounds (40%), 8 rounds (30%), 16 rounds (20%)"]
    state["weight_of_interval_length"] = {"4": 1.0}
    rewrite_manifest(summary=manifest["summary"])
    assert row_of(shown(capsys), "history in use") == ["4 rounds (100%)"]


@pytest.mark.parametrize(
    ("order", "how"),
    [
        ("--ordered", "in blocks of time, each predicted by a fit on all rows before it"),
        ("--unordered", "cross-validated"),
    ],
)
def test_fit_inspect_and_report_name_the_error_on_the_reference_alike(order, how, capsys):
    fit = ["fit", "reference.csv", "--label", "label", "--drop", "id,day", "--estimator", "linear", "-o", "model"]
    assert main([*fit, order, "--force"]) == 0
    error = re.search(rf"Error on the reference, {how}: (\S+) \(", capsys.readouterr().out)[1]
    assert row_of(shown(capsys), "error on the reference") == [f"{error}, {how}"]
    assert main(["report", "model", "-o", "report.html", "--quiet"]) == 0
    assert re.search(rf"<td>error on the reference</td><td[^>]*>{error}, {how}</td>", Path("report.html").read_text())


def test_every_finding_has_a_line(capsys):
    manifest = json.loads(Path("model/manifest.json").read_text())
    manifest["summary"]["state"]["findings"] = ["Column 'a' is new.", "Column 'b' is missing."]
    rewrite_manifest(summary=manifest["summary"])
    assert row_of(shown(capsys), "not known to the reference") == ["Column 'a' is new.", "Column 'b' is missing."]


def test_a_record_of_another_version_is_not_read(capsys):
    expected = shown(capsys)
    rewrite_manifest(summary={"version": 1_000, "state": {"rounds": -1}})
    assert shown(capsys) == expected


@pytest.mark.parametrize("kind", ["state", "reference", "record"])
def test_damage_is_reported_as_by_a_load(kind, capsys):
    manifest = Path("model/manifest.json")
    file = manifest if kind == "record" else Path("model") / json.loads(manifest.read_text())[kind]["name"]
    content = bytearray(file.read_bytes())
    place = content.index(b'"reference_rows": 300') + 20 if kind == "record" else len(content) // 2
    content[place] ^= 1
    file.write_bytes(content)
    capsys.readouterr()
    assert main(["inspect", "model"]) == 1
    assert f"{file.name} was changed since it was saved" in capsys.readouterr().err


# --- alerts ---------------------------------------------------------------------------------------------------


def checked(capsys, *options: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["inspect", "model", *options])
    return code, *capsys.readouterr()


def test_a_condition_that_holds_gives_exit_code_3_and_a_line_for_a_pager(capsys):
    assert main(ADAPT) == 0
    state = json.loads(shown(capsys, "--json"))
    options = ["--fail-if", "error >= 0%", "--fail-if", "effective_rows < 1", "--fail-if", "verdict != good"]
    code, out, err = checked(capsys, *options)
    assert (code, err) == (3, "")
    first, second = map(json.loads, out.splitlines())
    assert list(first) == ["alert", "value", "model", "round", "reason"]
    assert (first["alert"], first["value"]) == ("error >= 0%", state["estimated_error"])
    assert (first["model"], first["round"]) == ("model", 10)
    assert first["reason"] == f"The estimated error is {state['estimated_error']:.1%}."
    assert second["value"] == state["trust"]


def test_conditions_that_do_not_hold_print_nothing(capsys):
    assert checked(capsys, "--fail-if", "error > 100%", "--fail-if", "drift") == (0, "", "")


def test_json_is_the_state_with_a_list_of_alerts(capsys):
    state = json.loads(shown(capsys, "--json"))
    code, out, _ = checked(capsys, "--json", "--fail-if", "effective_rows > 0", "--fail-if", "drift")
    assert code == 3
    found = json.loads(out)
    assert [alert["alert"] for alert in found.pop("alerts")] == ["effective_rows > 0"]
    assert found == state


def test_a_value_that_is_not_known_is_remarked_on_and_no_alert(capsys):
    options = ["--fail-if", "measured_error > 0%"]
    assert checked(capsys, *options) == (0, "", "Not known, so not an alert: measured_error > 0%\n")
    assert checked(capsys, *options, "--quiet") == (0, "", "")


def test_the_record_has_what_the_conditions_read(capsys):
    assert main(ADAPT) == 0
    model = load_table_model(Path("model")).model
    state = json.loads(shown(capsys, "--json"))
    assert state["share_out_of_bound"] == model.trust_.share_out_of_bound
    assert state["last_drift_round"] == (model.drift_events_[-1].round if model.drift_events_ else 0)


@pytest.mark.parametrize(("covered", "text"), [(True, "between 10 and 40"), (False, "does not cover the inputs")])
@pytest.mark.parametrize("loss", ["absolute", "error"])
def test_an_error_has_no_interval_where_the_reference_has_no_rows(covered, text, loss):
    one = 1.0 if loss == "absolute" else 0.01
    ends = {"estimated_error": 20.0 * one, "estimated_error_low": 10.0 * one, "estimated_error_high": 40.0 * one}
    record = {"classes": [] if loss == "absolute" else ["a", "b"], "loss": loss, "estimated_error_known": False, **ends}
    record |= {"estimated_error_covered": covered, "contradicted_by": "labels"}
    record |= {"labels_contradict": True, "labels_inside": True}
    text = text if loss == "absolute" or not covered else "between 10% and 40%"
    assert text in _estimate(record)
    assert "contradicted" not in _estimate(record)
    # The interval is all that is shown: labels outside contradict it.
    assert _estimate(record | {"labels_inside": False}).endswith("; contradicted by labels") == covered


def test_labels_contradict_an_error_of_which_only_the_least_is_known():
    ends = {"estimated_error": 20.0, "estimated_error_low": 10.0, "estimated_error_high": None}
    record = {
        "classes": [],
        "loss": "absolute",
        "estimated_error_known": False,
        "estimated_error_covered": True,
        **ends,
    }
    record |= {"contradicted_by": "labels", "labels_contradict": True, "labels_inside": False}
    assert _estimate(record) == "not known: at least 10; contradicted by labels"
