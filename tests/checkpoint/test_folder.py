"""The folder: what is written how often, what is refused, and that nothing from the disk is run."""

import gc
import hashlib
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, MinMaxScaler
from sklearn.tree import DecisionTreeClassifier

import accous
from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.checkpoint import files as reading
from accous.checkpoint import folder as saving
from accous.checkpoint.folder import describe_foreign, require_foreign
from accous.exceptions import AccousError, CheckpointError
from accous.model.tasks import ClassTask
from tests.checkpoint.cases import forest, labels_of, make_cases
from tests.checkpoint.conftest import BATCH, REFERENCE, edit_manifest, file_of
from tests.compile_kernels import compile_kernels

# --- the folder ---------------------------------------------------------------------------------------------


def test_the_files_of_a_save(saved):
    manifest = json.loads((saved / "manifest.json").read_text())
    files, ours = {"reference", "state"}, {"format", "version", "accous", "checksum"}
    assert manifest.keys() == files | ours | {"model", "attached"}
    assert (manifest["format"], manifest["version"]) == ("accous", 4)
    assert manifest["model"]["class"] == "OnlineDensityRatio"
    assert manifest["model"]["parameters"]["feature_map"] == "auto"
    for kind, prefix in [("reference", "reference-"), ("state", "state-1-")]:
        content = (saved / manifest[kind]["name"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == manifest[kind]["sha256"]
        assert manifest[kind]["name"] == f"{prefix}{manifest[kind]['sha256'][:16]}.npz"
    assert len(list(saved.iterdir())) == 3


def test_folders_are_made_as_needed_and_the_same_model_gives_the_same_bytes(tmp_path):
    model, folders = make_cases()["texts"].fit(), (tmp_path / "some" / "where", str(tmp_path / "else"))
    for folder in folders:
        accous.save(model, folder)
        assert accous.load(folder).n_rounds_ == 0
    one, two = ({file.name: file.read_bytes() for file in Path(folder).iterdir()} for folder in folders)
    assert one == two


def test_every_save_replaces_the_state_and_has_the_permissions_of_files(saved):
    model = accous.load(saved)
    for number in range(2, 6):
        accous.save(model.partial_fit(BATCH), saved)
        assert file_of(saved, "state").name.startswith(f"state-{number}-")
    assert accous.load(saved).n_rounds_ == 5
    (saved / "plain").touch()
    assert len({file.stat().st_mode for file in saved.iterdir()}) == 1


def test_of_two_that_load_the_same_state_the_last_save_wins(saved):
    first, second = accous.load(saved), accous.load(saved)
    accous.save(first.partial_fit(BATCH).partial_fit(BATCH), saved)
    accous.save(second.partial_fit(BATCH), saved)
    assert accous.load(saved).n_rounds_ == 2
    accous.save(NoShift().fit(REFERENCE[:10]), saved)
    assert isinstance(accous.load(saved), NoShift), "another model replaces the saved one"
    assert len(list(saved.iterdir())) == 3


def test_a_table_model_is_not_replaced_by_a_model_without_a_table(tmp_path):
    model = AdaptiveClassifier().fit(REFERENCE, labels_of(2))
    saving.save_with(model, tmp_path, {"columns": []}, {"history": 1})
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(CheckpointError, match="table model"):
        accous.save(model.adapt(BATCH), tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    saving.save_with(model, tmp_path, {"columns": []}, {"history": 2})
    assert saving.load_with(tmp_path)[1:] == ({"columns": []}, {"history": 2})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("thesis.tex", "years of work"),
        *(("manifest.json", text) for text in ('{"name": "a web app"}', "[]", "not JSON")),
    ],
)
def test_a_folder_of_another_program_is_refused(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(CheckpointError, match="did not save"):
        accous.save(NoShift().fit(REFERENCE), tmp_path)
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        accous.load(tmp_path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(name, content)]


def test_a_path_that_is_a_file_or_nothing_is_refused(tmp_path):
    (tmp_path / "model").write_text("")
    for name, message in (("model", "is a file"), ("model/inside", "Cannot write to")):
        with pytest.raises(CheckpointError, match=message):
            accous.save(NoShift().fit(REFERENCE), tmp_path / name)
    for name, message in (("model", "is a file"), ("nowhere", "no such folder"), (".", "holds no saved model")):
        with pytest.raises(CheckpointError, match=message):
            accous.load(tmp_path / name)


@pytest.mark.skipif(
    os.name != "posix" or os.geteuid() == 0, reason="needs a user other than root: root may write anywhere"
)
def test_a_folder_without_permission_is_refused(saved):
    model = accous.load(saved)
    saved.chmod(0o500)
    try:
        with pytest.raises(CheckpointError, match="Cannot write to"):
            accous.save(model, saved)
    finally:
        saved.chmod(0o700)


def test_a_full_disk_is_reported_and_leaves_the_save_before(saved, monkeypatch):
    def fail(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patches:
        patches.setattr("accous.checkpoint.files.DigestStream.write", fail)
        with pytest.raises(CheckpointError, match=r"No space left"):
            accous.save(accous.load(saved).partial_fit(BATCH), saved)
    assert accous.load(saved).n_rounds_ == 1


# --- what is written how often ------------------------------------------------------------------------------


@pytest.fixture
def n_references(monkeypatch):
    """One entry for every reference that is turned into bytes."""
    written = []
    original = saving.write_data

    def write(folder, prefix, plain):
        if prefix == "reference":
            written.append(plain)
        return original(folder, prefix, plain)

    monkeypatch.setattr(saving, "write_data", write)
    return written


def test_an_unchanged_reference_is_written_once(n_references, saved, tmp_path):
    n_references.clear()
    accous.save(accous.load(saved).partial_fit(BATCH), saved)
    assert n_references == [], "a loaded one is not written again"
    model, folder = AdaptiveClassifier().fit(REFERENCE, labels_of(2)), tmp_path / "one"
    accous.save(model, folder)
    inode = file_of(folder, "reference").stat().st_ino
    for _ in range(3):
        accous.save(model.adapt(BATCH), folder)
    assert len(n_references) == 1
    assert file_of(folder, "reference").stat().st_ino == inode
    accous.save(model, tmp_path / "two")
    assert len(n_references) == 2
    file_of(tmp_path / "two", "reference").write_bytes(b"cut off")
    accous.save(model, tmp_path / "two")
    assert len(n_references) == 3
    assert accous.load(tmp_path / "two").reference_.tobytes() == REFERENCE.tobytes()
    accous.save(model.fit(REFERENCE[:10], labels_of(2)[:10]), tmp_path / "two")
    assert len(n_references) == 4
    assert len(accous.load(tmp_path / "two").reference_) == 10


def test_labels_and_weights_of_different_references_are_refused(tmp_path):
    model = AdaptiveClassifier().fit(REFERENCE, labels_of(2))
    accous.save(model, tmp_path / "model")
    model.task_ = ClassTask(model.classes_, model.labels_[:-3])
    accous.save(model, tmp_path / "model")
    n_rows = len(REFERENCE)
    with pytest.raises(CheckpointError, match=f"{n_rows - 3} labels but {n_rows} weights"):
        accous.load(tmp_path / "model")


def test_saving_keeps_no_model_alive(tmp_path):
    gc.collect()
    n_before = len(saving._written)
    model = NoShift().fit(REFERENCE)
    accous.save(model, tmp_path)
    assert len(saving._written) == n_before + 1
    del model
    gc.collect()
    assert len(saving._written) == n_before


def test_a_save_of_another_process_during_load_is_read_whole(saved, monkeypatch):
    later = accous.load(saved).partial_fit(BATCH)
    original = reading.read_manifest

    def read_then_save(folder):
        manifest = original(folder)
        if later.n_rounds_ < 5:
            accous.save(later.partial_fit(BATCH), folder)
        return manifest

    monkeypatch.setattr(reading, "read_manifest", read_then_save)
    loaded = accous.load(saved)
    assert loaded.n_rounds_ == 5
    assert loaded.coef_.tobytes() == later.coef_.tobytes()


# --- what cannot be saved -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [OnlineDensityRatio(), NoShift(), AdaptiveClassifier()], ids=repr)
def test_a_model_that_is_not_fitted_is_refused(model, tmp_path):
    with pytest.raises(NotFittedError):
        accous.save(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


class OwnClassifier(AdaptiveClassifier):
    """Not a ratio estimator."""


GENERATORS = [np.random.RandomState(0), np.random.default_rng(0)]
NOT_SAVED = {
    "scikit-learn": (LogisticRegression, "LogisticRegression cannot .*AdaptiveClassifier, .* TableModel"),
    "dict": (lambda: {"a": 1}, "A dict cannot"),
    "classifier": (lambda: OwnClassifier().fit(REFERENCE, labels_of(2)), "OwnClassifier cannot"),
    **{
        f"{type(model).__name__} {type(state).__name__}": (
            lambda model=model, state=state: model.set_params(random_state=state).fit(REFERENCE, labels_of(2)),
            "random_state is a (RandomState|Generator)",
        )
        for model in (OnlineDensityRatio(), SingleLearnerRatio(), AdaptiveClassifier())
        for state in GENERATORS
    },
    "sparse": (lambda: OnlineDensityRatio(MaxAbsScaler()).fit(scipy.sparse.csr_array(REFERENCE)), "is a csr_array"),
    "list": (lambda: OnlineDensityRatio(MaxAbsScaler()).fit(REFERENCE.tolist()), "is a list"),
}


@pytest.mark.parametrize(("make", "message"), NOT_SAVED.values(), ids=NOT_SAVED)
def test_what_cannot_be_saved_is_named_and_nothing_is_written(make, message, tmp_path):
    with pytest.raises(CheckpointError, match=message):
        accous.save(make(), tmp_path)
    assert not list(tmp_path.iterdir())


# --- what has to be passed again ----------------------------------------------------------------------------


@pytest.fixture
def saved_forest(tmp_path):
    """A folder with a saved model that needs two objects at `load`."""
    model = AdaptiveClassifier(forest(), OnlineDensityRatio(MinMaxScaler())).fit(REFERENCE, labels_of(2))
    accous.save(model, tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"feature_map": MinMaxScaler()}, r"estimator=RandomForestClassifier\("),
        ({"estimator": forest()}, r"feature_map=MinMaxScaler\("),
        ({"estimator": forest().set_params(max_depth=1), "feature_map": MinMaxScaler()}, "same class"),
        ({"estimator": forest(), "feature_map": MaxAbsScaler()}, r"not MaxAbsScaler\(\)"),
        ({"estimator": forest(), "feature_map": "standardize"}, "not 'standardize'"),
        ({"estimator": forest(), "feature_map": MinMaxScaler(), "ratio": NoShift()}, "leave ratio out"),
    ],
)
def test_what_was_saved_by_name_has_to_be_passed_as_it_was(given, message, saved_forest):
    with pytest.raises(CheckpointError, match=message):
        accous.load(saved_forest, **given)


@pytest.mark.parametrize("name", ["estimator", "feature_map", "ratio"])
def test_an_object_that_is_not_needed_is_refused(name, saved):
    with pytest.raises(CheckpointError, match=f"leave {name} out"):
        accous.load(saved, **{name: MinMaxScaler()})


def test_what_is_passed_is_used_and_not_fitted(saved_forest):
    estimator, feature_map = forest(), MinMaxScaler()
    model = accous.load(saved_forest, estimator=estimator, feature_map=feature_map)
    assert model.estimator is estimator
    assert model.ratio.feature_map is feature_map
    assert not hasattr(estimator, "estimators_")
    assert not hasattr(feature_map, "scale_")
    assert isinstance(model.estimator_, RandomForestClassifier)


def test_a_ratio_that_was_not_given_is_still_not_given(tmp_path):
    accous.save(AdaptiveClassifier(random_state=5).fit(REFERENCE, labels_of(2)), tmp_path)
    loaded = accous.load(tmp_path)
    assert loaded.get_params(deep=False)["ratio"] is None
    assert loaded.ratio_.random_state == 5


def make_long_pipeline(last_depth):
    steps = [MinMaxScaler(feature_range=(0.123456789, 1.0 + number)) for number in range(30)]
    return make_pipeline(*steps, DecisionTreeClassifier(max_depth=last_depth))


def test_a_parameter_that_is_not_printed_counts_too():
    wanted = {"estimator": describe_foreign(make_long_pipeline(3))}
    # scikit-learn leaves out the middle of what it prints.
    assert "..." in wanted["estimator"]["repr"]
    require_foreign(wanted, {"estimator": make_long_pipeline(3)})
    other = make_long_pipeline(3)
    other.steps[15][1].set_params(clip=True)
    assert describe_foreign(other)["repr"] == wanted["estimator"]["repr"]
    with pytest.raises(CheckpointError, match="same class"):
        require_foreign(wanted, {"estimator": other})


def test_addresses_in_memory_do_not_count():
    one, other = (FunctionTransformer(lambda rows: rows) for _ in range(2))
    assert describe_foreign(one) == describe_foreign(other)


# --- nothing from the disk is run ---------------------------------------------------------------------------


def test_nothing_is_pickled(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("pickled")

    case = make_cases()["pandas"]
    # Before anything is refused: numba pickles what it keeps of compiled code.
    compile_kernels()
    model = case.fit()
    for name in ["dump", "dumps", "load", "loads", "Pickler", "Unpickler"]:
        monkeypatch.setattr(pickle, name, refuse)
    accous.save(model, tmp_path)
    accous.load(tmp_path, **case.given)
    for kind in ["reference", "state"]:
        with np.load(file_of(tmp_path, kind), allow_pickle=False) as file:
            assert all(file[name].dtype.kind != "O" for name in file.files)


def test_a_pickle_in_the_place_of_an_array_is_not_read(saved):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("code from the disk was run",))

    state = file_of(saved, "state")
    with np.load(state) as file:
        arrays = dict(file)
    trap = np.array([Trap()], dtype=object)
    name = next(name for name in arrays if name.endswith("coef"))
    with state.open("wb") as stream:
        np.savez(stream, **{**arrays, name: trap})

    def point_to(content):
        content["state"]["sha256"] = hashlib.sha256(state.read_bytes()).hexdigest()
        content["state"]["size"] = state.stat().st_size

    edit_manifest(saved, point_to, forge=True)
    with pytest.raises(CheckpointError, match="what accous writes"):
        accous.load(saved)


FORGED = {
    **{
        f"class {name}": (lambda content, name=name: content["model"].update({"class": name}), f"class {name}")
        for name in ("Popen", "subprocess.Popen", "SomeLaterRatio", "RatioEstimator")
    },
    "parameter": (lambda content: content["model"]["parameters"].update(colour="red"), "no parameter 'colour'"),
    **{
        f"file {name}": (lambda content, name=name: content["state"].update(name=name), "incomplete")
        for name in ("../outside.npz", "/etc/passwd", "state-1-0123.npz")
    },
}


@pytest.mark.parametrize(("edit", "message"), FORGED.values(), ids=FORGED)
def test_what_a_forged_manifest_names_is_not_loaded(edit, message, saved):
    edit_manifest(saved, edit, forge=True)
    with pytest.raises(CheckpointError, match=message):
        accous.load(saved)


def test_frame_libraries_are_loaded_only_for_frames(tmp_path, library_forks):
    code = """
import sys, numpy as np, accous
accous.save(accous.OnlineDensityRatio().fit(np.eye(5)), sys.argv[1])
accous.load(sys.argv[1])
assert "polars" not in sys.modules
assert "accous.checkpoint.pandas_frames" not in sys.modules
"""
    library_forks.run(code, tmp_path, kind="code")


# --- damage -------------------------------------------------------------------------------------------------


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize("kind", ["reference", "state"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [(lambda content: content[:-100], r"truncated \(\d+ of \d+ bytes\)"), (flipped, "was changed"), (None, "missing")],
)
def test_a_damaged_file_is_named(kind, damage, message, saved):
    file = file_of(saved, kind)
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(CheckpointError, match=f"{file.name} (is |was )?.*{message.removeprefix('was ')}"):
        accous.load(saved)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda content: content["model"]["parameters"].update(ridge=2.0), "was changed"),
        (lambda content: content.update(accous="9.9"), "was changed"),
        (lambda content: content.pop("checksum"), "was changed"),
        (lambda content: content.update(version=1), r"an earlier accous \(format 1; "),
        (lambda content: content.update(version="one"), "was changed"),
        (lambda content: content.update(version=5), r"a newer accous \(format 5; "),
    ],
)
def test_a_changed_manifest_is_noticed(edit, message, saved):
    edit_manifest(saved, edit)
    with pytest.raises(CheckpointError, match=message):
        accous.load(saved)


@pytest.mark.parametrize("damage", [lambda text: text[:-20], lambda _: "[" * 100_000])
def test_a_manifest_that_cannot_be_read_is_noticed(damage, saved):
    path = saved / "manifest.json"
    path.write_text(damage(path.read_text()))
    with pytest.raises(AccousError, match=r"manifest\.json"):
        accous.load(saved)


def test_a_file_that_cannot_be_read_is_reported(saved, monkeypatch):
    def fail(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(saving, "read_data", fail)
    with pytest.raises(CheckpointError, match=r"Permission denied"):
        accous.load(saved)
