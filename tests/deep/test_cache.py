"""The cache: found again by content, recomputed where damaged, never unpickled, shared without locks."""

import threading

import numpy as np
import pytest

from accous.deep.cache import EmbeddingCache, key_of, open_cache
from accous.exceptions import ParameterError

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")

from accous.deep import BackboneFeatures  # noqa: E402
from tests.deep.networks import images, small_convolution  # noqa: E402


class Counting(torch.nn.Module):
    """Counts the rows that pass; the count is no part of its state."""

    rows_seen = 0

    def __init__(self, seed=0):
        super().__init__()
        self.inner = small_convolution(seed)

    def forward(self, rows):
        Counting.rows_seen += len(rows)
        return self.inner(rows)


def rows_computed(folder, X, *, module=None, **parameters):
    """How many rows went through the backbone, and their features."""
    Counting.rows_seen = 0
    settings = {"image_size": 12, "batch_size": 16, "n_jobs": 1, "random_state": 0, "cache": folder}
    found = BackboneFeatures(module or Counting(), **{**settings, **parameters}).fit_transform(X)
    return Counting.rows_seen, found


def test_embeddings_are_computed_once(tmp_path):
    X = images(40)
    first, expected = rows_computed(tmp_path, X)
    again, found = rows_computed(tmp_path, X)
    assert (first, again) == (40, 0)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(rows_computed(None, X)[1], expected)


def test_what_is_different_is_computed(tmp_path):
    X = images(40)
    rows_computed(tmp_path, X)
    changed = X.copy()
    changed[20, 0, 0, 0] ^= 1
    assert rows_computed(tmp_path, changed)[0] == 16  # the mini-batch with the changed row
    assert rows_computed(tmp_path, X.astype(float))[0] == 40
    assert rows_computed(tmp_path, X, image_size=10)[0] == 40
    assert rows_computed(tmp_path, X, module=Counting(seed=1))[0] == 40
    assert rows_computed(tmp_path, X)[0] == 0


@pytest.mark.parametrize("damage", [lambda b: b[:-7], lambda _: b"", lambda b: b[:200] + b"\x01" + b[201:]])
def test_a_damaged_file_is_computed_anew(tmp_path, damage):
    X = images(20)
    _, expected = rows_computed(tmp_path, X)
    path = next(iter(sorted(tmp_path.rglob("*.npy"))))
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    computed, found = rows_computed(tmp_path, X)
    assert computed in (4, 16)
    np.testing.assert_array_equal(found, expected)
    assert path.read_bytes() == whole


def test_files_are_plain_arrays(tmp_path):
    cache = EmbeddingCache(tmp_path)
    embeddings = np.arange(6, dtype=np.float32).reshape(2, 3)
    cache.write("ab12", embeddings)
    np.testing.assert_array_equal(np.load(tmp_path / "ab" / "ab12.npy", allow_pickle=False), embeddings)
    np.testing.assert_array_equal(cache.read("ab12", 2), embeddings)
    assert cache.read("ab12", 3) is None
    assert cache.read("cd34", 2) is None


def test_writers_and_readers_at_once_see_whole_files(tmp_path):
    cache = EmbeddingCache(tmp_path)
    embeddings = np.random.default_rng(0).normal(size=(500, 40)).astype(np.float32)
    wrong = []

    def use():
        for _ in range(20):
            cache.write("aa", embeddings)
            found = cache.read("aa", 500)
            if found is None or not np.array_equal(found, embeddings):
                wrong.append(found)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert [path.name for path in (tmp_path / "aa").iterdir()] == ["aa.npy"]


def test_keys_tell_shape_and_type_apart():
    zeros = np.zeros((4, 4), dtype=np.uint8)
    pieces = [zeros, zeros.reshape(2, 8), zeros.astype(np.int8), [zeros], list(zeros), zeros + np.uint8(1)]
    assert len({key_of("backbone", piece) for piece in pieces}) == len(pieces)
    assert key_of("another", zeros) != key_of("backbone", zeros)
    assert key_of("backbone", np.asfortranarray(zeros)) == key_of("backbone", zeros)


def test_the_users_folder_and_what_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCOUS_CACHE", str(tmp_path / "mine"))
    assert open_cache(True).folder == tmp_path / "mine" / "embeddings"
    assert open_cache(None) is None
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ParameterError, match="where no folder can be made"):
        open_cache(tmp_path / "file" / "below")
    with pytest.raises(ParameterError, match="None, True or the path"):
        open_cache(3)


def test_a_cache_that_cannot_be_written_only_warns(tmp_path):
    X = images(16)
    _, expected = rows_computed(None, X)
    cache = tmp_path / "cache"
    rows_computed(cache, images(16, seed=1))
    for name in "0123456789abcdef":
        for other in "0123456789abcdef":
            if not (cache / (name + other)).exists():
                (cache / (name + other)).write_text("in the way")
    with pytest.warns(RuntimeWarning, match="cannot be kept"):
        _, found = rows_computed(cache, X)
    np.testing.assert_array_equal(found, expected)
