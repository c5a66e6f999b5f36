"""What is kept of the past is bounded, comes back from the disk, and a damaged file is refused."""

import pytest

from accous.exceptions import CheckpointError
from accous.service.log import Idempotency, StoredResponse, load_idempotency


def answer(size: int) -> StoredResponse:
    return StoredResponse(b"d", 200, b"x" * size)


def test_the_oldest_answers_leave_first():
    store = Idempotency(most_responses=3, most_bytes=100)
    for number in range(5):
        store.keep_response(f"k{number}", answer(10))
    assert [store.response(f"k{number}") is not None for number in range(5)] == [False, False, True, True, True]
    store.keep_response("large", answer(90))
    assert store.response("k3") is None
    assert store.response("large") is not None
    store.keep_response("larger", answer(1000))
    assert store.response("larger") is not None, "the last one stays, whatever its size"
    assert store.response("large") is None


def test_it_comes_back_from_the_disk(tmp_path):
    store = Idempotency()
    store.keep_response("k", answer(5))
    store.save(tmp_path / "idempotency.bin", "log")
    again = load_idempotency(tmp_path / "idempotency.bin", "log")
    assert again.response("k") == answer(5)
    assert load_idempotency(tmp_path / "idempotency.bin", "other log").response("k") is None


def test_a_damaged_file_is_refused(tmp_path):
    store = Idempotency()
    store.keep_response("k", answer(5))
    store.save(tmp_path / "idempotency.bin", "log")
    content = bytearray((tmp_path / "idempotency.bin").read_bytes())
    content[-3] ^= 1
    (tmp_path / "idempotency.bin").write_bytes(content)
    with pytest.raises(CheckpointError, match="is damaged"):
        load_idempotency(tmp_path / "idempotency.bin", "log")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="is missing"):
        load_idempotency(tmp_path / "idempotency.bin", "log")
