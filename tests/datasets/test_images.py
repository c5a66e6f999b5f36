"""Image sets: what they hold, where they are looked for, and what is refused."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accous import datasets
from accous.datasets import image_sources
from accous.datasets.dataset import Source
from accous.datasets.image_files import PoolSource, PublishedFile, find_pool
from accous.datasets.image_pools import hash_images
from accous.datasets.images import has_cifar_cinic
from accous.exceptions import DataError, ParameterError
from tests.needs import STAND_INS, needs_data

# --- the real images ----------------------------------------------------------------------------------------------


def assert_sound(pair: datasets.ImagePair, n_first: int, n_second: int, classes: list[int]) -> None:
    """Hashes were checked on loading."""
    for pool, n_images in ((pair.first, n_first), (pair.second, n_second)):
        assert pool.images.shape == (n_images, 32, 32, 3)
        assert pool.images.dtype == np.uint8
        assert pool.labels.shape == (n_images,)
        assert pool.labels.dtype == np.int64
        assert np.unique(pool.labels).tolist() == classes
        assert pool.images[:200].std() > 30
    assert len(pair.notes) >= 2
    for source in pair.sources:
        assert source.url.startswith("http")
        assert source.citation


@needs_data
def test_mnist_and_svhn() -> None:
    pair = datasets.load("mnist_svhn")
    assert_sound(pair, 10_000, 10_000, list(range(10)))
    assert pair.name == "mnist_svhn"
    assert not pair.has_stand_in
    assert pair.first.labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert np.bincount(pair.first.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert not pair.first.images[:, :2].any()
    assert np.array_equal(pair.first.images[..., 0], pair.first.images[..., 2])
    assert not np.array_equal(pair.second.images[..., 0], pair.second.images[..., 2])
    assert repr(pair).startswith("ImagePair(mnist_svhn: ImagePool(MNIST: 10000 images, 10 classes), ")


@needs_data
@pytest.mark.skipif(not has_cifar_cinic("stand-in"), reason=STAND_INS)
def test_stand_ins_are_named_and_have_the_same_classes() -> None:
    pair = datasets.load("cifar_cinic")
    assert_sound(pair, 8000, 8250, [1, 2, 3, 4, 5, 6, 8, 9])
    assert pair.has_stand_in
    assert pair.second.stand_in_for == "CINIC-10's images of ImageNet origin"
    assert "JPEG" in pair.title
    assert "Tiny-ImageNet" in pair.title
    assert pair.notes[-1] == "Both pools have only the classes 1, 2, 3, 4, 5, 6, 8, 9."


@needs_data
@pytest.mark.skipif(not has_cifar_cinic("genuine"), reason=STAND_INS)
def test_genuine_sample_has_no_image_of_cifar() -> None:
    pair = datasets.load_cifar_cinic(part="genuine")
    assert_sound(pair, 2000, 1479, list(range(10)))
    assert not pair.has_stand_in


def test_other_parts_are_refused() -> None:
    with pytest.raises(ParameterError, match="part is 'all': name one of stand-in, genuine, full"):
        datasets.load_cifar_cinic(part="all")  # type: ignore[arg-type]


# --- where images are looked for ----------------------------------------------------------------------------------


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No data folder, an empty cache, and no network but this machine; gives the cache."""
    monkeypatch.delenv("ACCOUS_DATA", raising=False)
    monkeypatch.setenv("ACCOUS_CACHE", str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def data(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty data folder, besides the empty cache."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("ACCOUS_DATA", str(folder))
    return folder


@pytest.mark.parametrize(
    ("load", "file_name"),
    [
        (datasets.load_mnist_svhn, "t10k-images-idx3-ubyte.gz"),
        (datasets.load_cifar_cinic, "cifar-10-binary.tar.gz"),
        (partial(datasets.load_cifar_cinic, "genuine"), "cifar-10-binary.tar.gz"),
        (datasets.load_yearbook, "faces_aligned_small_mirrored_co_aligned_cropped_cleaned.tar.gz"),
    ],
)
def test_offline_without_data_one_sentence_says_what_to_do(load: Any, file_name: str, cache: Path) -> None:
    with pytest.raises(DataError, match=f"put {file_name} into a folder and set ACCOUS_DATA to it") as raised:
        load()
    assert "\n" not in str(raised.value)


def test_one_stand_in_alone_is_not_mixed_with_the_real_thing(data: Path) -> None:
    np.savez(data / "cifar10_10k_jpeg.npz", X=np.zeros(1), y=np.zeros(1))
    with pytest.raises(DataError, match="CIFAR-10 is neither in ACCOUS_DATA nor in the cache"):
        datasets.load_cifar_cinic()


def test_other_images_than_declared_are_refused(data: Path) -> None:
    path = data / "cifar10_lossless_sample_2000.npz"
    np.savez(path, X=np.zeros((2000, 32, 32, 3), dtype=np.uint8), y=np.zeros(2000))
    with pytest.raises(DataError, match=r"cifar10_lossless_sample_2000.npz .* the hash of its arrays is"):
        find_pool(image_sources.CIFAR_SAMPLE)
    np.savez(path, X=np.zeros((2000, 32, 32, 3)), y=np.zeros(2000))
    with pytest.raises(DataError, match="its images are float64 of shape"):
        find_pool(image_sources.CIFAR_SAMPLE)
    np.savez(path, X=np.zeros((1, 1)))
    with pytest.raises(DataError, match="does not hold the arrays X, y"):
        find_pool(image_sources.CIFAR_SAMPLE)
    np.savez(path, X=np.array([{}], dtype=object), y=np.zeros(1))
    with pytest.raises(DataError, match="cannot be read"):
        find_pool(image_sources.CIFAR_SAMPLE)


def test_every_published_file_has_a_url_and_a_checksum() -> None:
    for pool in (image_sources.MNIST, image_sources.SVHN, image_sources.CIFAR, image_sources.CINIC):
        for file in pool.published:
            assert all(url.startswith("http") for url in file.urls)
            assert file.md5 is not None
            assert len(bytes.fromhex(file.md5)) == 16


# A publisher of three images: a file of raw bytes, labels first.

CONTENT = bytes([2, 0, 1]) + np.random.default_rng(0).bytes(3 * 32 * 32 * 3)


def parse_bytes(path: Path) -> tuple[np.ndarray, np.ndarray]:
    values = np.frombuffer(path.read_bytes(), np.uint8)
    return values[3:].reshape(3, 32, 32, 3), values[:3].astype(np.int64)


def tiny_pool(*urls: str, md5: str | None = hashlib.md5(CONTENT).hexdigest()) -> PoolSource:
    source = Source("tiny", "Tiny", "http://tiny", "none", "none", 3, 3072, 3, "tiny.npz")
    return PoolSource(source, published=(PublishedFile("tiny.bin", urls, md5),), parse=parse_bytes)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """URL of a folder with the published file."""
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "tiny.bin").write_bytes(CONTENT)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "www"))) as http:
        threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


def test_download_is_parsed_and_kept(cache: Path, server: str) -> None:
    pool, source = find_pool(tiny_pool(f"{server}/gone.bin", f"{server}/tiny.bin"))
    assert source.name == "tiny"
    assert pool.labels.tolist() == [2, 0, 1]
    assert pool.images.tobytes() == CONTENT[3:]
    for file in cache.iterdir():
        if file.name != "tiny.npz":
            file.unlink()
    again, _ = find_pool(tiny_pool())  # nothing to fetch it from
    assert hash_images(again.images, again.labels) == hash_images(pool.images, pool.labels)


def test_another_checksum_is_refused(cache: Path, server: str) -> None:
    with pytest.raises(DataError, match="hash"):
        find_pool(tiny_pool(f"{server}/tiny.bin", md5="0" * 32))
    assert not (cache / "tiny.npz").exists()


def test_published_files_may_lie_in_the_data_folder(data: Path, cache: Path) -> None:
    (data / "tiny.bin").write_bytes(CONTENT)
    assert find_pool(tiny_pool())[0].labels.tolist() == [2, 0, 1]
    assert (cache / "tiny.npz").is_file()
    assert [path.name for path in data.iterdir()] == ["tiny.bin"]
    (cache / "tiny.npz").unlink()
    (data / "tiny.bin").write_bytes(CONTENT[:-1] + b"?")
    with pytest.raises(DataError, match=r"tiny.bin is not as published: its MD5 is"):
        find_pool(tiny_pool())


def test_what_was_changed_in_the_cache_is_refused(cache: Path, server: str) -> None:
    find_pool(tiny_pool(f"{server}/tiny.bin"))
    with np.load(cache / "tiny.npz") as file:
        arrays = dict(file)
    np.savez(cache / "tiny.npz", **(arrays | {"labels": np.array([2, 0, 2])}))
    with pytest.raises(DataError, match=r"tiny.npz is damaged: delete it"):
        find_pool(tiny_pool())


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_cache_that_cannot_be_written_is_a_warning(is_folder: bool, data: Path, cache: Path) -> None:
    (data / "tiny.bin").write_bytes(CONTENT)
    if is_folder:
        (cache / "tiny.npz" / "in the way").mkdir(parents=True)
    else:
        cache.write_bytes(b"in the way")
    with pytest.warns(RuntimeWarning, match=r"tiny.npz cannot be written .*: the data will be read from their source"):
        pool, _ = find_pool(tiny_pool())
    assert pool.labels.tolist() == [2, 0, 1]
    assert not is_folder or [file.name for file in cache.iterdir()] == ["tiny.npz"]  # nothing unfinished


def test_the_data_folder_comes_before_the_cache(data: Path, cache: Path) -> None:
    first, second = tiny_pool(), replace(tiny_pool(), source=replace(tiny_pool().source, file_name="other.npz"))
    images = np.zeros((3, 32, 32, 3), dtype=np.uint8)
    cache.mkdir()
    for path, labels in ((cache / "tiny.npz", [0, 0, 0]), (data / "other.npz", [1, 1, 1])):
        digest = hash_images(images, np.array(labels))
        np.savez(path, images=images, labels=np.array(labels), sha256=np.array(digest))
    assert find_pool(first, second)[0].labels.tolist() == [1, 1, 1]


def test_hash_sees_images_labels_and_shapes() -> None:
    images, labels = np.zeros((2, 32, 32, 3), dtype=np.uint8), np.array([0, 1])
    changed = images.copy()
    changed[1, 31, 31, 2] = 1
    hashes = [
        hash_images(images, labels),
        hash_images(changed, labels),
        hash_images(images, labels[::-1]),
        hash_images(images.reshape(1, 64, 32, 3), labels),
        hash_images(images, labels, labels),
    ]
    assert len(set(hashes)) == 5
    assert hash_images(images, labels.astype(np.uint8)) == hashes[0]
