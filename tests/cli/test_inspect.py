"""`accous inspect` shows what the last save wrote, at once; where that is not there, what the model itself says."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from accous.cli import main
from accous.table.model import load_table_model, save_table_model
from accous.table.summary import read_table_model_summary, summarize_table_model
from tests.cli.processes import ENVIRONMENT
from tests.cli.tables import fit_model, make_tables

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
    stream.write_csv(folder / "stream.csv")
    fit_model(folder, reference, "--drop", "id")
    return folder


@pytest.fixture(autouse=True)
def _model(_fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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
    assert found == json.loads(json.dumps(summarize_table_model(load_table_model(Path("model")).snapshot())))
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
    assert file.name in capsys.readouterr().err


# --- alerts ---------------------------------------------------------------------------------------------------


def checked(capsys, *options: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["inspect", "model", *options])
    return code, *capsys.readouterr()


def test_a_condition_that_holds_gives_exit_code_3_and_a_line_for_a_pager(capsys):
    assert main(ADAPT) == 0
    state = json.loads(shown(capsys, "--json"))
    options = ["--fail-if", "error >= 0%", "--fail-if", "effective_rows < 1", "--fail-if", "verdict != good"]
    assert checked(capsys, "--fail-if", "error > 100%", "--fail-if", "drift") == (0, "", "")
    code, out, err = checked(capsys, *options)
    assert (code, err) == (3, "")
    first, second = map(json.loads, out.splitlines())
    assert list(first) == ["alert", "value", "model", "round", "reason"]
    assert (first["alert"], first["value"]) == ("error >= 0%", state["estimated_error"])
    assert (first["model"], first["round"]) == ("model", 10)
    assert f"{state['estimated_error']:.1%}" in first["reason"]
    model = load_table_model(Path("model")).model
    assert state["share_out_of_bound"] == model.trust_.share_out_of_bound
    assert state["last_drift_round"] == (model.drift_events_[-1].round if model.drift_events_ else 0)
    assert sum(state["weight_of_interval_length"].values()) == pytest.approx(1.0)
    assert second["value"] == state["trust"]


def test_json_is_the_state_with_a_list_of_alerts(capsys):
    state = json.loads(shown(capsys, "--json"))
    code, out, _ = checked(capsys, "--json", "--fail-if", "effective_rows > 0", "--fail-if", "drift")
    assert code == 3
    found = json.loads(out)
    assert [alert["alert"] for alert in found.pop("alerts")] == ["effective_rows > 0"]
    assert found == state


def test_a_value_that_is_not_known_is_remarked_on_and_no_alert(capsys):
    options = ["--fail-if", "measured_error > 0%"]
    code, out, err = checked(capsys, *options)
    assert (code, out, "measured_error > 0%" in err) == (0, "", True)
    assert checked(capsys, *options, "--quiet") == (0, "", "")


ESTIMATE = {"estimated_error": 0.2, "estimated_error_low": 0.1, "estimated_error_high": 0.4}
ESTIMATE |= {"labels_contradict": True, "labels_inside": True, "estimated_error_known": False}
ESTIMATE |= {"estimated_error_covered": True, "contradicted_by": "labels"}


@pytest.mark.parametrize(
    ("changes", "shown", "is_contradicted"),
    [
        ({}, "between 10% and 40%", False),
        # The interval is all that is shown: labels outside contradict it.
        ({"labels_inside": False}, "between 10% and 40%", True),
        ({"estimated_error_covered": False, "labels_inside": False}, "does not cover", False),
        ({"estimated_error_high": None, "labels_inside": False}, "at least 10%", True),
    ],
)
def test_an_error_is_shown_as_far_as_it_is_known(changes, shown, is_contradicted, capsys):
    assert main(ADAPT) == 0
    summary = json.loads(Path("model/manifest.json").read_text())["summary"]
    summary["state"] |= ESTIMATE | changes
    rewrite_manifest(summary=summary)
    capsys.readouterr()
    assert main(["inspect", "model"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "estimated error now" in line)
    assert shown in line
    assert ("contradicted by labels" in line) is is_contradicted
