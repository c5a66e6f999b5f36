"""The folder, what it refuses, and what is written how often."""

import gc
import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler

import accous
from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.checkpoint import folder as reading
from accous.checkpoint import folder as saving
from accous.exceptions import CheckpointError
from accous.model.tasks import ClassTask
from tests.checkpoint.cases import forest, labels_of, make_cases
from tests.checkpoint.folders import BATCH, REFERENCE, file_of
from tests.docs_pages import ROOT


@pytest.fixture
def saved_forest(tmp_path: Path) -> Path:
    """A folder with a saved model that needs two objects at `load`."""
    model = AdaptiveClassifier(forest(), OnlineDensityRatio(MinMaxScaler())).fit(REFERENCE, labels_of(2))
    accous.save(model, tmp_path / "model")
    return tmp_path / "model"


# --- the folder -----------------------------------------------------------------------------------------------


def test_the_files_of_a_save(saved: Path) -> None:
    manifest = json.loads((saved / "manifest.json").read_text())
    files, ours = {"reference", "state"}, {"format", "version", "accous", "checksum"}
    assert manifest.keys() == files | ours | {"model", "attached", "summary"}
    assert (manifest["format"], manifest["version"]) == ("accous", 1)
    assert manifest["model"]["class"] == "OnlineDensityRatio"
    assert manifest["model"]["parameters"]["feature_map"] == "auto"
    for kind, prefix in [("reference", "reference-"), ("state", "state-1-")]:
        content = (saved / manifest[kind]["name"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == manifest[kind]["sha256"]
        assert manifest[kind]["name"] == f"{prefix}{manifest[kind]['sha256'][:16]}.npz"
    assert len(list(saved.iterdir())) == 3


@pytest.mark.parametrize("as_path", [str, Path], ids=["str", "Path"])
def test_folders_are_made_as_needed(as_path: Callable[[Any], Any], tmp_path: Path) -> None:
    accous.save(NoShift().fit(REFERENCE), as_path(tmp_path / "some" / "where"))
    assert accous.load(as_path(tmp_path / "some" / "where")).n_rounds_ == 0


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    model = make_cases()["texts"].fit()
    accous.save(model, tmp_path / "one")
    accous.save(model, tmp_path / "two")
    one, two = ({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ["one", "two"])
    assert one == two


def test_files_have_the_permissions_that_the_user_gives_to_files(saved: Path) -> None:
    (saved / "plain").touch()
    expected = (saved / "plain").stat().st_mode
    assert {file.stat().st_mode for file in saved.iterdir()} == {expected}


def test_every_save_replaces_the_state(saved: Path) -> None:
    model = accous.load(saved)
    for number in range(2, 6):
        accous.save(model.partial_fit(BATCH), saved)
        assert file_of(saved, "state").name.startswith(f"state-{number}-")
    assert accous.load(saved).n_rounds_ == 5


def test_of_two_that_load_the_same_state_the_last_save_wins_as_the_pages_say(saved: Path) -> None:
    before = accous.load(saved).n_rounds_
    first, second = accous.load(saved), accous.load(saved)
    accous.save(first.partial_fit(BATCH).partial_fit(BATCH), saved)
    accous.save(second.partial_fit(BATCH), saved)
    assert accous.load(saved).n_rounds_ == before + 1
    pages = [(ROOT / "docs" / page).read_text("utf-8") for page in ("howto/resume.md", "tutorials/pipeline.md")]
    for words in (*pages, str(accous.save.__doc__)):
        assert "lost without an error" in " ".join(words.split())


def test_another_model_replaces_the_saved_one(saved: Path) -> None:
    accous.save(NoShift().fit(REFERENCE[:10]), saved)
    assert isinstance(accous.load(saved), NoShift)
    assert len(list(saved.iterdir())) == 3


def test_a_table_model_is_not_replaced_by_a_model_without_a_table(tmp_path: Path) -> None:
    model = AdaptiveClassifier().fit(REFERENCE, labels_of(2))
    saving.save_with(model, tmp_path, {"columns": []}, {"history": 1})
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(CheckpointError, match=r"holds a table model that accous fit made.* give another folder"):
        accous.save(model.adapt(BATCH), tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    saving.save_with(model, tmp_path, {"columns": []}, {"history": 2})
    assert saving.load_with(tmp_path)[1:] == ({"columns": []}, {"history": 2})


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(CheckpointError, match="did not save: give a new or empty folder"):
        accous.save(NoShift().fit(REFERENCE), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("content", ['{"name": "a web app"}', "[]", "not JSON"])
def test_a_manifest_of_another_program_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(CheckpointError, match="did not save"):
        accous.save(NoShift().fit(REFERENCE), tmp_path)
    with pytest.raises(CheckpointError, match=r"was not written by accous|cannot be read as JSON"):
        accous.load(tmp_path)
    assert (tmp_path / "manifest.json").read_text() == content


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("")
    with pytest.raises(CheckpointError, match="model is a file: give a folder"):
        accous.save(NoShift().fit(REFERENCE), tmp_path / "model")
    with pytest.raises(CheckpointError, match=r"holds no saved model \(it is a file\): give the folder"):
        accous.load(tmp_path / "model")
    with pytest.raises(CheckpointError, match=r"holds no saved model \(there is no such folder\): give the folder"):
        accous.load(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="Cannot write to"):
        accous.save(NoShift().fit(REFERENCE), tmp_path / "model" / "inside")


@pytest.mark.skipif(
    os.name != "posix" or os.geteuid() == 0, reason="needs a user other than root: root may write anywhere"
)
def test_a_folder_without_permission_is_refused(saved: Path) -> None:
    model = accous.load(saved)
    saved.chmod(0o500)
    try:
        with pytest.raises(CheckpointError, match="Cannot write to"):
            accous.save(model, saved)
    finally:
        saved.chmod(0o700)


def test_a_full_disk_is_reported_and_leaves_the_save_before(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patches:
        patches.setattr("accous.checkpoint.files.DigestStream.write", fail)
        with pytest.raises(CheckpointError, match=r"Cannot write to .*No space left on device"):
            accous.save(accous.load(saved).partial_fit(BATCH), saved)
    assert accous.load(saved).n_rounds_ == 1


# --- what is written how often --------------------------------------------------------------------------------


@pytest.fixture
def n_references(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One entry for every reference that is turned into bytes."""
    written: list[Any] = []
    original = saving.fixed_to_plain
    monkeypatch.setattr(saving, "fixed_to_plain", lambda model: written.append(model) or original(model))
    return written


def test_an_unchanged_reference_is_written_once(n_references: list[Any], tmp_path: Path) -> None:
    model = AdaptiveClassifier().fit(REFERENCE, labels_of(2))
    accous.save(model, tmp_path)
    inode = file_of(tmp_path, "reference").stat().st_ino
    for _ in range(3):
        accous.save(model.adapt(BATCH), tmp_path)
    assert len(n_references) == 1
    assert file_of(tmp_path, "reference").stat().st_ino == inode


def test_a_loaded_reference_is_not_written_again(n_references: list[Any], saved: Path) -> None:
    n_references.clear()
    accous.save(accous.load(saved).partial_fit(BATCH), saved)
    assert n_references == []


def test_a_new_fit_another_folder_and_a_damaged_file_are_written(n_references: list[Any], tmp_path: Path) -> None:
    model = NoShift().fit(REFERENCE)
    accous.save(model, tmp_path / "one")
    accous.save(model, tmp_path / "two")
    assert len(n_references) == 2
    file_of(tmp_path / "two", "reference").write_bytes(b"cut off")
    accous.save(model, tmp_path / "two")
    assert len(n_references) == 3
    assert accous.load(tmp_path / "two").reference_.tobytes() == REFERENCE.tobytes()
    accous.save(model.fit(REFERENCE[:10]), tmp_path / "two")
    assert len(n_references) == 4
    assert len(accous.load(tmp_path / "two").reference_) == 10


def test_an_extension_waits_for_the_save(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = AdaptiveClassifier().fit(REFERENCE, labels_of(2))
    write, threads = saving._write_reference, []

    def write_and_extend(*arguments: Any) -> Any:
        written = write(*arguments)
        threads.append(threading.Thread(target=model.extend, args=(BATCH, labels_of(2)[: len(BATCH)])))
        threads[0].start()
        threads[0].join(timeout=1.0)
        return written

    monkeypatch.setattr(saving, "_write_reference", write_and_extend)
    accous.save(model, tmp_path / "model")
    threads[0].join()
    loaded = accous.load(tmp_path / "model")
    assert len(loaded.labels_) == len(loaded.reference_weight_) == len(REFERENCE)
    assert len(model.labels_) == len(REFERENCE) + len(BATCH)


def test_labels_and_weights_of_different_references_are_refused(tmp_path: Path) -> None:
    model = AdaptiveClassifier().fit(REFERENCE, labels_of(2))
    accous.save(model, tmp_path / "model")
    model.task_ = ClassTask(model.classes_, model.labels_[:-3])
    accous.save(model, tmp_path / "model")
    n_rows = len(REFERENCE)
    with pytest.raises(CheckpointError, match=f"{n_rows - 3} labels but {n_rows} weights"):
        accous.load(tmp_path / "model")


def test_saving_keeps_no_model_alive(tmp_path: Path) -> None:
    gc.collect()
    n_before = len(saving._written)
    model = NoShift().fit(REFERENCE)
    accous.save(model, tmp_path)
    assert len(saving._written) == n_before + 1
    del model
    gc.collect()
    assert len(saving._written) == n_before


def test_a_save_of_another_process_during_load_is_read_whole(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = accous.load(saved).partial_fit(BATCH)
    original = reading.read_manifest

    def read_then_save(folder: Path) -> Any:
        manifest = original(folder)
        if later.n_rounds_ < 5:
            accous.save(later.partial_fit(BATCH), folder)
        return manifest

    monkeypatch.setattr(reading, "read_manifest", read_then_save)
    loaded = accous.load(saved)
    assert loaded.n_rounds_ == 5
    assert loaded.coef_.tobytes() == later.coef_.tobytes()


# --- what cannot be saved -------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [OnlineDensityRatio(), NoShift(), AdaptiveClassifier()], ids=repr)
def test_a_model_that_is_not_fitted_is_refused(model: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        accous.save(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


class OwnRatio(NoShift):
    """A subclass without methods of its own to save what it learned."""


def test_the_classes_that_can_be_saved_are_listed(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"AdaptiveClassifier, AdaptiveRegressor, .*, TableModel or a Ratio"):
        accous.save(LogisticRegression(), tmp_path / "model")


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (LogisticRegression(), "LogisticRegression"),
        (OwnRatio().fit(REFERENCE), "OwnRatio"),
        (AdaptiveClassifier(ratio=OwnRatio()).fit(REFERENCE, labels_of(2)), "OwnRatio"),
        ({"a": 1}, "dict"),
    ],
    ids=["scikit-learn", "subclass", "inside", "dict"],
)
def test_a_class_that_is_not_ours_is_not_saved(model: Any, name: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=f"A {name} cannot be saved"):
        accous.save(model, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "random_state", [np.random.RandomState(0), np.random.default_rng(0)], ids=lambda r: type(r).__name__
)
@pytest.mark.parametrize("model", [OnlineDensityRatio(), SingleLearnerRatio(), AdaptiveClassifier()], ids=repr)
def test_a_generator_as_random_state_is_refused(model: Any, random_state: Any, tmp_path: Path) -> None:
    model = model.set_params(random_state=random_state).fit(REFERENCE, labels_of(2))
    with pytest.raises(CheckpointError, match=r"random_state is a (RandomState|Generator).*: use an integer"):
        accous.save(model, tmp_path)


@pytest.mark.parametrize(
    ("reference", "name"),
    [(scipy.sparse.csr_array(REFERENCE), "csr_array"), (REFERENCE.tolist(), "list")],
    ids=["sparse", "list"],
)
def test_a_reference_that_is_no_table_of_ours_is_refused(reference: Any, name: str, tmp_path: Path) -> None:
    model = OnlineDensityRatio(MaxAbsScaler()).fit(reference)
    with pytest.raises(CheckpointError, match=f"The reference is a {name}, .*: fit on an array"):
        accous.save(model, tmp_path)


# --- what has to be passed again ------------------------------------------------------------------------------


def test_what_was_saved_by_name_has_to_be_passed(saved_forest: Path) -> None:
    with pytest.raises(CheckpointError, match=r"load\(path, estimator=RandomForestClassifier\(\.\.\.\)\)"):
        accous.load(saved_forest, feature_map=MinMaxScaler())
    with pytest.raises(CheckpointError, match=r"load\(path, feature_map=MinMaxScaler\(\.\.\.\)\)"):
        accous.load(saved_forest, estimator=forest())


def test_an_object_with_other_parameters_is_refused(saved_forest: Path) -> None:
    with pytest.raises(CheckpointError, match="the same class and parameters"):
        accous.load(saved_forest, estimator=forest().set_params(max_depth=1), feature_map=MinMaxScaler())


def test_an_object_of_another_class_is_refused(saved_forest: Path) -> None:
    with pytest.raises(CheckpointError, match=r"feature_map=MinMaxScaler\(\), not MaxAbsScaler\(\)"):
        accous.load(saved_forest, estimator=forest(), feature_map=MaxAbsScaler())
    with pytest.raises(CheckpointError, match=r"feature_map=MinMaxScaler\(\), not 'standardize'"):
        accous.load(saved_forest, estimator=forest(), feature_map="standardize")


@pytest.mark.parametrize("name", ["estimator", "feature_map", "ratio"])
def test_an_object_that_is_not_needed_is_refused(name: str, saved: Path) -> None:
    with pytest.raises(CheckpointError, match=f"leave {name} out of load"):
        accous.load(saved, **{name: MinMaxScaler()})


def test_what_is_passed_is_used_and_not_fitted(saved_forest: Path) -> None:
    estimator, feature_map = forest(), MinMaxScaler()
    model = accous.load(saved_forest, estimator=estimator, feature_map=feature_map)
    assert model.estimator is estimator
    assert model.ratio.feature_map is feature_map
    assert not hasattr(estimator, "estimators_")
    assert not hasattr(feature_map, "scale_")
    assert isinstance(model.estimator_, RandomForestClassifier)


def test_a_ratio_that_was_not_given_is_still_not_given(tmp_path: Path) -> None:
    accous.save(AdaptiveClassifier(random_state=5).fit(REFERENCE, labels_of(2)), tmp_path)
    loaded = accous.load(tmp_path)
    assert loaded.get_params(deep=False)["ratio"] is None
    assert loaded.ratio_.random_state == 5
