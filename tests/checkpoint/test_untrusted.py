"""Nothing from the disk is run, and what is damaged, changed or missing is named."""

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accous
from accous.checkpoint import folder as saving
from accous.exceptions import AccousError, CheckpointError
from tests.checkpoint.cases import make_cases
from tests.checkpoint.folders import edit_manifest, file_of
from tests.compile_kernels import compile_kernels
from tests.forks import ForkServer

# --- nothing from the disk is run -----------------------------------------------------------------------------


def test_nothing_is_pickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
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


def test_a_pickle_in_the_place_of_an_array_is_not_read(saved: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (pytest.fail, ("code from the disk was run",))

    state = file_of(saved, "state")
    with np.load(state) as file:
        arrays = dict(file)
    trap = np.array([Trap()], dtype=object)
    name = next(name for name in arrays if name.endswith("coef"))
    with state.open("wb") as stream:
        np.savez(stream, **{**arrays, name: trap})

    def point_to(content: dict[str, Any]) -> None:
        content["state"]["sha256"] = hashlib.sha256(state.read_bytes()).hexdigest()
        content["state"]["size"] = state.stat().st_size

    edit_manifest(saved, point_to, forge=True)
    with pytest.raises(CheckpointError, match="does not hold what accous writes"):
        accous.load(saved)


@pytest.mark.parametrize("name", ["Popen", "subprocess.Popen", "SomeLaterRatio", "RatioEstimator"])
def test_a_class_that_is_not_ours_is_not_loaded(name: str, saved: Path) -> None:
    edit_manifest(saved, lambda content: content["model"].update({"class": name}), forge=True)
    with pytest.raises(CheckpointError, match=f"does not know the class {name}: upgrade accous"):
        accous.load(saved)


def test_a_parameter_of_a_later_version_is_named(saved: Path) -> None:
    edit_manifest(saved, lambda content: content["model"]["parameters"].update(colour="red"), forge=True)
    with pytest.raises(CheckpointError, match="no parameter 'colour'"):
        accous.load(saved)


def test_a_parameter_added_since_the_save_has_its_default(saved: Path) -> None:
    edit_manifest(saved, lambda content: content["model"]["parameters"].pop("max_ratio"), forge=True)
    assert accous.load(saved).max_ratio == 100.0


@pytest.mark.parametrize("name", ["../outside.npz", "/etc/passwd", "state-1-0123.npz"])
def test_a_file_name_that_is_not_ours_is_not_opened(name: str, saved: Path) -> None:
    edit_manifest(saved, lambda content: content["state"].update(name=name), forge=True)
    with pytest.raises(CheckpointError, match=r"manifest\.json is incomplete"):
        accous.load(saved)


def test_frame_libraries_are_loaded_only_for_frames(tmp_path: Path, library_forks: ForkServer) -> None:
    code = """
import sys, numpy as np, accous
accous.save(accous.OnlineDensityRatio().fit(np.eye(5)), sys.argv[1])
accous.load(sys.argv[1])
assert "polars" not in sys.modules
assert "accous.checkpoint.pandas_frames" not in sys.modules
"""
    library_forks.run(code, tmp_path, kind="code")


# --- damage ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["reference", "state"])
def test_a_truncated_file_is_named(kind: str, saved: Path) -> None:
    file = file_of(saved, kind)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=rf"{file.name} is truncated \(\d+ of \d+ bytes\): restore"):
        accous.load(saved)


@pytest.mark.parametrize("kind", ["reference", "state"])
def test_a_changed_bit_is_noticed(kind: str, saved: Path) -> None:
    file = file_of(saved, kind)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{file.name} was changed since it was saved .*: restore"):
        accous.load(saved)


@pytest.mark.parametrize("kind", ["reference", "state"])
def test_a_missing_file_is_named(kind: str, saved: Path) -> None:
    file = file_of(saved, kind)
    file.unlink()
    with pytest.raises(CheckpointError, match=f"{file.name} is missing: restore"):
        accous.load(saved)


@pytest.mark.parametrize(
    "edit",
    [
        lambda content: content["model"]["parameters"].update(ridge=2.0),
        lambda content: content.update(accous="9.9"),
        lambda content: content.pop("checksum"),
        lambda content: content.update(version=0),
        lambda content: content.update(version="one"),
    ],
)
def test_a_changed_manifest_is_noticed(edit: Callable[[dict[str, Any]], object], saved: Path) -> None:
    edit_manifest(saved, edit)
    with pytest.raises(CheckpointError, match=r"manifest\.json was changed since it was saved .*: restore"):
        accous.load(saved)


def test_a_truncated_manifest_is_noticed(saved: Path) -> None:
    text = (saved / "manifest.json").read_text()
    (saved / "manifest.json").write_text(text[:-20])
    with pytest.raises(CheckpointError, match=r"manifest\.json cannot be read as JSON .*: restore"):
        accous.load(saved)


def test_a_manifest_that_python_cannot_read_is_noticed(saved: Path) -> None:
    (saved / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match=r"manifest\.json cannot be read as JSON .*: restore"):
        accous.load(saved)


def test_a_newer_format_asks_for_an_upgrade(saved: Path) -> None:
    edit_manifest(saved, lambda content: content.update(version=2))
    with pytest.raises(CheckpointError, match=r"newer accous \(format 2\); this one reads up to 1: upgrade"):
        accous.load(saved)


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_without_a_model_is_named(exists: bool, tmp_path: Path) -> None:
    folder = tmp_path if exists else tmp_path / "nowhere"
    with pytest.raises(CheckpointError, match=f"{folder} holds no saved model"):
        accous.load(folder)


def test_a_file_that_cannot_be_read_is_reported(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(saving, "read_data", fail)
    with pytest.raises(CheckpointError, match=r"Cannot read .*Permission denied"):
        accous.load(saved)


def test_errors_are_caught_as_errors_of_the_package(tmp_path: Path) -> None:
    with pytest.raises(AccousError):
        accous.load(tmp_path)
