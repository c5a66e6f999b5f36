"""What is kept of the past is bounded, comes back from the disk, and a damaged file is refused."""

import pytest

from accous.exceptions import CheckpointError
from accous.service.log import Kept, KeptAnswer, load_kept


def answer(size: int) -> KeptAnswer:
    return KeptAnswer(b"d", 200, b"x" * size)


def test_the_oldest_answers_leave_first():
    kept = Kept(most_answers=3, most_bytes=100)
    for number in range(5):
        kept.keep_answer(f"k{number}", answer(10))
    assert [kept.answer(f"k{number}") is not None for number in range(5)] == [False, False, True, True, True]
    kept.keep_answer("large", answer(90))
    assert kept.answer("k3") is None
    assert kept.answer("large") is not None
    kept.keep_answer("larger", answer(1000))
    assert kept.answer("larger") is not None, "the last one stays, whatever its size"
    assert kept.answer("large") is None


def test_the_oldest_predictions_leave_first_and_the_last_counts():
    kept = Kept(most_predictions=2)
    kept.keep_predictions(["a", "b"], ["yes", "no"], 1)
    kept.keep_predictions(["a"], ["no"], 2)
    kept.keep_predictions(["c"], ["yes"], 3)
    assert (kept.prediction("a"), kept.prediction("b")) == (("no", 2), None)


def test_it_comes_back_from_the_disk(tmp_path):
    kept = Kept()
    kept.keep_answer("k", answer(5))
    kept.keep_predictions(["a"], ["yes"], 7)
    kept.measured.append([1.0, 0.2, 0.1, 0.3, 40.0])
    kept.save(tmp_path / "kept.bin", "log")
    again = load_kept(tmp_path / "kept.bin", "log")
    assert (again.answer("k"), again.prediction("a"), again.measured) == (answer(5), ("yes", 7), kept.measured)
    assert load_kept(tmp_path / "kept.bin", "other log").answer("k") is None
    assert load_kept(tmp_path / "nothing", "log").answer("k") is None


def test_a_damaged_file_is_refused(tmp_path):
    kept = Kept()
    kept.keep_answer("k", answer(5))
    kept.save(tmp_path / "kept.bin", "log")
    content = bytearray((tmp_path / "kept.bin").read_bytes())
    content[-3] ^= 1
    (tmp_path / "kept.bin").write_bytes(content)
    with pytest.raises(CheckpointError, match="is damaged"):
        load_kept(tmp_path / "kept.bin", "log")
