"""Folders that somebody else made, with the right checksums: one sentence, and no other file is touched."""

import hashlib
import io
import json
import os
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from accous.checkpoint.files import LOCK_NAME, exclusive_lock
from accous.cli import main
from accous.exceptions import CheckpointError
from accous.service.log import BatchLog, Record
from accous.table.store import STORE_NAME, Store, StorePosition
from tests.fuzz.forged import model_folder, problem_of, seal_manifest, stored_predictions

N_CASES = {"arrays": 300, "manifest": 300, "log": 1000, "idempotency": 1000, "store": 300}


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in model_folder().items():
        (folder / name).write_bytes(content)
    return folder


def _manifest(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_bytes())


def _put_state(folder: Path, content: bytes) -> None:
    """Put other arrays in the place of the state, with the right digest."""
    digest = hashlib.sha256(content).hexdigest()
    stored = {"name": f"state-1-{digest[:16]}.npz", "sha256": digest, "size": len(content)}
    (folder / stored["name"]).write_bytes(content)
    (folder / "manifest.json").write_bytes(seal_manifest(_manifest(folder) | {"state": stored}))


def _zip(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


def _header(shape: str) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return np.lib.format.magic(1, 0) + len(text).to_bytes(2, "little") + text.encode()


def _nested_skeleton() -> bytes:
    made = io.BytesIO()
    np.lib.format.write_array(made, np.frombuffer(b"[" * 200_000, dtype=np.uint8))
    return made.getvalue()


def _one_sentence(arguments: list[str], capsys) -> str:
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("accous: ")
    assert err.count("\n") == 1
    return err


# --- Links


@pytest.mark.parametrize("kind", ["symbolic", "hard"])
@pytest.mark.parametrize("command", ["adapt", "labels"])
def test_a_lock_that_is_a_link_empties_nothing(model, kind, command, capsys):
    diary, lock = model.parent / "diary.csv", model / LOCK_NAME
    diary.write_text("dear diary")
    lock.unlink()
    lock.symlink_to(diary) if kind == "symbolic" else os.link(diary, lock)
    arguments = {"adapt": ["adapt", "model", "s.csv", "-o", "p.csv"], "labels": ["labels", "model", "s.csv"]}[command]
    assert ".accous.lock" in _one_sentence(arguments, capsys)
    assert diary.read_text() == "dear diary"


def test_a_lock_that_is_no_file_is_refused(model):
    (model / LOCK_NAME).unlink()
    os.mkfifo(model / LOCK_NAME)
    with pytest.raises(CheckpointError, match=r"\.accous\.lock"), exclusive_lock(model, "a test"):
        pass


@pytest.mark.parametrize(
    "command", [["adapt"], ["labels"], ["ask", "-n", "1", "-o", "asked.csv"]], ids=lambda each: each[0]
)
def test_a_lock_that_cannot_be_taken_is_a_sentence(model, command, capsys):
    """As in a folder on a disk that is read only."""
    (model / LOCK_NAME).unlink()
    (model / LOCK_NAME).mkdir()
    said = _one_sentence([command[0], "model", "s.csv", *command[1:]], capsys)
    assert "Cannot write to model" in said
    assert "Errno" not in said


def test_a_log_that_is_a_link_is_not_written_to(model):
    other = model.parent / "other.log"
    BatchLog.create(other).close()
    (model / "batches.log").symlink_to(other)
    with pytest.raises(CheckpointError, match=r"batches\.log .*link"):
        BatchLog(model / "batches.log", "00" * 16, 0, 0)


def test_a_pipe_in_the_place_of_arrays_is_not_waited_for(model, capsys):
    state = model / _manifest(model)["state"]["name"]
    state.unlink()
    os.mkfifo(state)
    assert "regular file" in _one_sentence(["status", "model"], capsys)


# --- Sizes


@pytest.mark.parametrize(
    "shape", ["(1000000000000, 4)", "(1000000000000, 0)", "(-1, -4)", "(0, 1000000000000)"], ids=lambda each: each
)
def test_a_declared_shape_takes_no_memory(model, shape, capsys):
    _put_state(model, _zip({"skeleton.npy": _header(shape) + bytes(32)}))
    assert "what accous writes" in _one_sentence(["status", "model"], capsys)
    _put_state(model, _zip({"skeleton.npy": _header(shape) + bytes(2_000_000)}))
    assert "what accous writes" in _one_sentence(["predict", "model", "s.csv"], capsys)


def test_a_small_file_is_not_unpacked_to_a_large_one(model, capsys):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("skeleton.npy", "w") as member:
        member.write(_header("(13107200,)"))
        for _ in range(100):
            member.write(bytes(1 << 20))
    assert len(made.getvalue()) < 150_000
    _put_state(model, made.getvalue())
    assert "compressed" in _one_sentence(["status", "model"], capsys)


@pytest.mark.parametrize("command", [["status", "model"], ["report", "model"], ["predict", "model", "s.csv"]])
def test_nested_brackets_end_in_a_sentence(model, command, capsys):
    _put_state(model, _zip({"skeleton.npy": _nested_skeleton()}))
    assert "RecursionError" in _one_sentence(command, capsys)


@pytest.mark.parametrize("part", ["model", "attached"])
def test_nested_brackets_in_the_manifest_end_in_a_sentence(model, part, capsys):
    deep: list = []
    for _ in range(900):
        deep = [deep]
    (model / "manifest.json").write_bytes(seal_manifest(_manifest(model) | {part: deep}))
    command = ["status", "model"] if part == "model" else ["report", "model"]
    _one_sentence(command, capsys)
    text = (model / "manifest.json").read_bytes().replace(b"[]", b"[" * 200_000, 1)
    (model / "manifest.json").write_bytes(text)
    _one_sentence(command, capsys)


@pytest.mark.parametrize("batch", [9.5, "nine"])
def test_a_batch_of_labels_that_is_no_number_is_refused(tmp_path, batch):
    """To take 9.5 back, batch 9 was taken back for ever."""
    (tmp_path / STORE_NAME).write_bytes(stored_predictions())
    with closing(sqlite3.connect(tmp_path / STORE_NAME)) as connection:
        connection.execute("UPDATE predictions SET label_batch = ? WHERE id = 4", [batch])
        connection.commit()
    with pytest.raises(CheckpointError, match="is damaged"):
        Store.open(tmp_path, StorePosition(last_id=2_200, n_batches=1), start=0)


@pytest.mark.parametrize("name", list(N_CASES))
def test_whatever_is_forged_is_used_or_refused(name):
    failed = {number: problem for number in range(N_CASES[name]) if (problem := problem_of(name, 0, number))}
    assert not failed, next(iter(failed.values()))


# --- Batches that a service has accepted


@pytest.fixture
def served(model):
    """A model whose service was killed after it accepted two batches, one of which the model contains."""
    from accous.table.model import load_table_model, save_table_model
    from accous.table.runs import LogPosition

    (model / "service").mkdir()
    log = BatchLog.create(model / "service" / "batches.log")
    log.append([Record("adapt", "text/csv", b"x\n1\n"), Record("adapt", "text/csv", b"x\n2\n")])
    log.close()
    table_model = load_table_model(model)
    table_model.log_position = LogPosition(log.name, 1)
    save_table_model(table_model, model)
    return model, log


@pytest.mark.parametrize("command", ["adapt", "ask", "labels", "predict", "status", "report"])
def test_commands_wait_for_batches_that_the_model_does_not_contain(served, command, capsys):
    folder, _ = served
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != LOCK_NAME}
    more = {"ask": ["s.csv", "-n", "1", "-o", "asked.csv"], "status": [], "report": []}.get(command, ["s.csv"])
    said = _one_sentence([command, "model", *more], capsys)
    assert " 1 batch " in said
    assert before == {path.name: path.read_bytes() for path in folder.iterdir() if path.name in before}


def test_beside_a_running_service_predictions_are_those_of_the_last_save(served, capsys):
    folder, _ = served
    with exclusive_lock(folder, "accous serve"):
        assert main(["status", "model"]) == 0
        capsys.readouterr()
        assert "s.csv" in _one_sentence(["predict", "model", "s.csv"], capsys)


def test_commands_go_on_when_the_model_contains_all(served, capsys):
    from accous.table.model import load_table_model, save_table_model
    from accous.table.runs import LogPosition

    folder, log = served
    table_model = load_table_model(folder)
    for position in (LogPosition(log.name, 2), LogPosition("11" * 16, 0), None):
        table_model.log_position = position
        save_table_model(table_model, folder)
        assert "s.csv" in _one_sentence(["predict", "model", "s.csv"], capsys)
