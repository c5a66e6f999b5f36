"""The cache: found again by content, recomputed where damaged, never unpickled, shared without locks."""

import importlib
import os
import sys
import threading

import numpy as np
import pytest

from accous.deep.rows import EmbeddingCache, Pictures, key_of, open_cache
from accous.exceptions import ParameterError

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")

from accous.deep import BackboneFeatures  # noqa: E402
from accous.deep.networks import Backbone, Preparation  # noqa: E402
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


class Base(torch.nn.Module):
    def __init__(self, layer=2, table=(1.0, 2.0)):
        super().__init__()
        self.layer = layer
        self.register_buffer("table", torch.tensor(table), persistent=False)


class Derived(Base):
    def forward(self, rows):
        return rows * self.layer * self.table.sum()


def identity(module):
    return Backbone(module, Preparation(None)).identity


def test_attributes_and_buffers_outside_the_state_tell_backbones_apart():
    others = [Derived(layer=3), Derived(table=(1.0, 3.0)), Derived(layer=(2,)), Base()]
    assert len({identity(module) for module in [Derived(), *others]}) == 5
    assert identity(Derived()) == identity(Derived()) is not None
    doubled, tripled = Derived(layer=lambda x: 2 * x), Derived(layer=lambda x: 3 * x)
    assert identity(doubled) != identity(tripled)


def test_inherited_code_tells_backbones_apart(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for number in (2, 3):
        name = f"network_of_a_user_{number}"
        base = f"class Base(torch.nn.Module):\n    def forward(self, rows):\n        return {number} * rows\n"
        (tmp_path / f"{name}.py").write_text(f"import torch\n\n{base}\nclass Net(Base):\n    pass\n")
        module = importlib.import_module(name)
        monkeypatch.delitem(sys.modules, name)
        for kind in (module.Base, module.Net):
            kind.__module__ = "network_of_a_user"
        monkeypatch.setitem(sys.modules, "network_of_a_user", module)
        found.append(identity(module.Net()))
    assert None not in found
    assert found[0] != found[1]


def test_without_source_code_nothing_is_cached(tmp_path):
    names = {"torch": torch, "__name__": "typed_at_a_prompt"}
    exec("class Net(torch.nn.Module):\n    def forward(self, rows):\n        return rows.flatten(1)", names)
    with pytest.warns(RuntimeWarning, match="not cached"):
        BackboneFeatures(names["Net"](), cache=tmp_path, n_jobs=1, random_state=0).fit(images(8))
    assert not list(tmp_path.rglob("*.npy"))


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


def test_files_may_be_read_by_whom_the_umask_lets(tmp_path):
    before = os.umask(0o022)
    try:
        EmbeddingCache(tmp_path).write("ab12", np.ones((2, 3), dtype=np.float32))
    finally:
        os.umask(before)
    assert (tmp_path / "ab" / "ab12.npy").stat().st_mode & 0o777 == 0o644


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
    pieces = [
        zeros,
        zeros.reshape(2, 8),
        zeros.astype(np.int8),
        [zeros],
        list(zeros),
        Pictures(zeros),
        zeros + np.uint8(1),
    ]
    assert len({key_of("backbone", piece) for piece in pieces}) == len(pieces)
    assert key_of("another", zeros) != key_of("backbone", zeros)
    assert key_of("backbone", np.asfortranarray(zeros)) == key_of("backbone", zeros)


def test_the_users_folder_and_a_path_that_is_not_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCOUS_CACHE", str(tmp_path / "mine"))
    assert open_cache(True).folder == tmp_path / "mine" / "embeddings"
    assert open_cache(None) is None
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ParameterError, match="no folder"):
        open_cache(tmp_path / "file" / "below")
    with pytest.raises(ParameterError, match="None, True"):
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
    with pytest.warns(RuntimeWarning, match="cannot be stored"):
        _, found = rows_computed(cache, X)
    np.testing.assert_array_equal(found, expected)
