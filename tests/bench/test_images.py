"""Image sets: what they hold, how published files are parsed, where they are looked for, and what is refused."""

import gzip
import hashlib
import io
import struct
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from accous.exceptions import DataError, MissingExtraError
from accous_bench.images import (
    CIFAR_CLASSES,
    CIFAR_JPEG,
    ImagePair,
    PoolSource,
    PublishedFile,
    find_pool,
    has_stand_ins,
    hash_images,
    load_cifar_cinic,
    load_mnist_svhn,
    load_yearbook,
    pad_digits,
    parse_cifar,
    parse_cinic,
    parse_mnist,
    parse_svhn,
    portraits_from,
    read_png,
)
from tests.needs import STAND_INS, needs_data


def assert_sound(pair: ImagePair, n_first: int, n_second: int, classes: list[int]) -> None:
    """Hashes were checked on loading."""
    for pool, n_images in ((pair.first, n_first), (pair.second, n_second)):
        assert pool.images.shape == (n_images, 32, 32, 3)
        assert pool.images.dtype == np.uint8
        assert pool.labels.shape == (n_images,)
        assert pool.labels.dtype == np.int64
        assert np.unique(pool.labels).tolist() == classes
        assert pool.images[:200].std() > 30
        assert pool.note.endswith(".")


@needs_data
def test_mnist_and_svhn() -> None:
    pair = load_mnist_svhn()
    assert_sound(pair, 10_000, 10_000, list(range(10)))
    assert pair.first.stand_in_for is pair.second.stand_in_for is None
    assert pair.first.labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert np.bincount(pair.first.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert not pair.first.images[:, :2].any()
    assert np.array_equal(pair.first.images[..., 0], pair.first.images[..., 2])
    assert not np.array_equal(pair.second.images[..., 0], pair.second.images[..., 2])
    assert repr(pair.first) == "ImagePool(MNIST: 10000 images, 10 classes)"


@needs_data
@pytest.mark.skipif(not has_stand_ins(), reason=STAND_INS)
def test_stand_ins_are_named_and_have_the_same_classes() -> None:
    pair = load_cifar_cinic()
    assert_sound(pair, 8000, 8250, [1, 2, 3, 4, 5, 6, 8, 9])
    assert pair.second.stand_in_for.startswith("CINIC-10")
    assert "JPEG" in pair.first.title
    assert "Tiny-ImageNet" in pair.second.title


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
        (load_mnist_svhn, "t10k-images-idx3-ubyte.gz"),
        (partial(load_cifar_cinic, "full"), "cifar-10-binary.tar.gz"),
        (load_yearbook, "the folder faces_aligned_small_mirrored_co_aligned_cropped_cleaned"),
    ],
)
def test_offline_without_data_one_sentence_says_what_to_do(load: Any, file_name: str, cache: Path) -> None:
    with pytest.raises(DataError, match=f"{file_name}.* set ACCOUS_DATA") as raised:
        load()
    assert "\n" not in str(raised.value)


def test_one_stand_in_alone_is_not_mixed_with_the_real_thing(data: Path) -> None:
    np.savez(data / "cifar10_10k_jpeg.npz", X=np.zeros(1), y=np.zeros(1))
    with pytest.raises(DataError, match=r"CIFAR10-CINIC10 .*ACCOUS_DATA"):
        load_cifar_cinic()


def test_other_images_than_declared_are_refused(data: Path) -> None:
    path = data / "cifar10_10k_jpeg.npz"
    np.savez(path, X=np.zeros((10_000, 32, 32, 3), dtype=np.uint8), y=np.zeros(10_000))
    with pytest.raises(DataError, match=r"cifar10_10k_jpeg\.npz .*hash"):
        find_pool(CIFAR_JPEG)
    np.savez(path, X=np.zeros((10_000, 32, 32, 3)), y=np.zeros(10_000))
    with pytest.raises(DataError, match="float64"):
        find_pool(CIFAR_JPEG)
    np.savez(path, X=np.zeros((1, 1)))
    with pytest.raises(DataError, match="arrays X, y"):
        find_pool(CIFAR_JPEG)
    np.savez(path, X=np.array([{}], dtype=object), y=np.zeros(1))
    with pytest.raises(DataError, match="cannot be read"):
        find_pool(CIFAR_JPEG)


CONTENT = bytes([2, 0, 1]) + np.random.default_rng(0).bytes(3 * 32 * 32 * 3)


def parse_bytes(path: Path) -> tuple[np.ndarray, np.ndarray]:
    values = np.frombuffer(path.read_bytes(), np.uint8)
    return values[3:].reshape(3, 32, 32, 3), values[:3].astype(np.int64)


def tiny_pool(*urls: str) -> PoolSource:
    published = (PublishedFile("tiny.bin", urls, hashlib.md5(CONTENT).hexdigest()),)
    return PoolSource("Tiny", "Three images.", "tiny.npz", 3, published=published, parse=parse_bytes)


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
    pool = find_pool(tiny_pool(f"{server}/gone.bin", f"{server}/tiny.bin"))
    assert pool.labels.tolist() == [2, 0, 1]
    assert pool.images.tobytes() == CONTENT[3:]
    for file in cache.iterdir():
        if file.name != "tiny.npz":
            file.unlink()
    again = find_pool(tiny_pool())  # nothing to fetch it from
    assert hash_images(again.images, again.labels) == hash_images(pool.images, pool.labels)


def test_published_files_may_lie_in_the_data_folder(data: Path, cache: Path) -> None:
    (data / "tiny.bin").write_bytes(CONTENT)
    assert find_pool(tiny_pool()).labels.tolist() == [2, 0, 1]
    assert (cache / "tiny.npz").is_file()
    assert [path.name for path in data.iterdir()] == ["tiny.bin"]
    (cache / "tiny.npz").unlink()
    (data / "tiny.bin").write_bytes(CONTENT[:-1] + b"?")
    with pytest.raises(DataError, match=r"tiny\.bin .*MD5"):
        find_pool(tiny_pool())


def test_what_was_changed_in_the_cache_is_refused(cache: Path, server: str) -> None:
    find_pool(tiny_pool(f"{server}/tiny.bin"))
    with np.load(cache / "tiny.npz") as file:
        arrays = dict(file)
    np.savez(cache / "tiny.npz", **(arrays | {"labels": np.array([2, 0, 2])}))
    with pytest.raises(DataError, match=r"tiny\.npz is damaged"):
        find_pool(tiny_pool())


def random_bytes(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size=shape, dtype=np.uint8)


def png(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def write_tar(path: Path, contents: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def write_idx(path: Path, values: np.ndarray, kind: int = 8) -> Path:
    header = bytes((0, 0, kind, values.ndim)) + struct.pack(f">{values.ndim}i", *values.shape)
    path.write_bytes(gzip.compress(header + values.tobytes()))
    return path


def test_digits_are_in_the_middle_of_black_in_three_channels(tmp_path: Path) -> None:
    digits, labels = random_bytes(5, 28, 28), np.array([7, 2, 1, 0, 9], dtype=np.uint8)
    images, found = parse_mnist(write_idx(tmp_path / "images.gz", digits), write_idx(tmp_path / "labels.gz", labels))
    assert images.shape == (5, 32, 32, 3)
    assert images.dtype == np.uint8
    assert found.tolist() == [7, 2, 1, 0, 9]
    assert found.dtype == np.int64
    for channel in range(3):
        assert np.array_equal(images[:, 2:30, 2:30, channel], digits)
    assert images.sum() == 3 * digits.sum(dtype=np.int64)  # nothing outside
    assert np.array_equal(images, pad_digits(digits))


def write_mat(path: Path, images: np.ndarray, labels: np.ndarray) -> Path:
    savemat(path, {"X": images.transpose(1, 2, 3, 0), "y": labels[:, None]})
    return path


def test_crops_of_both_files_keep_their_labels_and_ten_is_zero(tmp_path: Path) -> None:
    paths, crops, labels = [], [], []
    for i, name in enumerate(("train.mat", "test.mat")):
        crops.append(random_bytes(12, 32, 32, 3, seed=i))
        labels.append(np.array([10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1], dtype=np.uint8))
        paths.append(write_mat(tmp_path / name, crops[i], labels[i]))
    images, found = parse_svhn(*paths, n_each=12)
    assert np.array_equal(images, np.concatenate(crops))
    assert found.tolist() == 2 * [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]

    fewer, fewer_labels = parse_svhn(*paths, n_each=5)
    assert fewer.shape == (10, 32, 32, 3)
    for i, (image, label) in enumerate(zip(fewer, fewer_labels, strict=True)):
        part = i // 5
        (position,) = np.flatnonzero((crops[part] == image).all(axis=(1, 2, 3)))
        assert labels[part][position] % 10 == label
    assert np.array_equal(fewer, parse_svhn(*paths, n_each=5)[0])


def test_records_are_a_label_and_three_planes(tmp_path: Path) -> None:
    pixels, labels = random_bytes(4, 32, 32, 3), [3, 8, 0, 9]
    records = b"".join(
        bytes([label]) + b"".join(image[:, :, channel].tobytes() for channel in range(3))
        for image, label in zip(pixels, labels, strict=True)
    )
    contents = {"cifar-10-batches-bin/data_batch_1.bin": b"x", "cifar-10-batches-bin/test_batch.bin": records}
    images, found = parse_cifar(write_tar(tmp_path / "cifar.tar.gz", contents))
    assert np.array_equal(images, pixels)
    assert found.tolist() == labels
    assert found.dtype == np.int64


def test_torn_or_foreign_cifar_archives_are_named(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "c.tar.gz", {"cifar-10-batches-bin/test_batch.bin": bytes(3074)})
    with pytest.raises(DataError, match=r"c\.tar\.gz is truncated: .*3074"):
        parse_cifar(path)
    with pytest.raises(DataError, match=r"p\.tar\.gz .*test_batch\.bin"):
        parse_cifar(write_tar(tmp_path / "p.tar.gz", {"cifar-10-batches-py/test_batch": b"a pickle"}))
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DataError, match=r"c\.tar\.gz"):
        parse_cifar(path)


def cinic_contents(prefix: str = "") -> dict[str, bytes]:
    """Three ImageNet images a class in the test part, the label in every pixel; and what must not be taken."""
    contents = {}
    for label, name in enumerate(CIFAR_CLASSES):
        for i in range(3):
            pixels = np.full((32, 32, 3), label, dtype=np.uint8)
            pixels[0, 0] = (1, 2, i)
            contents[f"{prefix}test/{name}/n0000000{label}_{i}.png"] = png(pixels)
        foreign = png(np.full((32, 32, 3), 255, dtype=np.uint8))
        contents[f"{prefix}test/{name}/cifar10-test-{label}.png"] = foreign
        contents[f"{prefix}train/{name}/n0000000{label}_7.png"] = foreign
    return contents | {f"{prefix}README.md": b"text"}


@pytest.mark.parametrize("prefix", ["", "./", "CINIC-10/"])
def test_imagenet_part_of_the_test_images(tmp_path: Path, prefix: str) -> None:
    path = write_tar(tmp_path / "cinic.tar.gz", cinic_contents(prefix))
    images, labels = parse_cinic(path, n_per_class=3)
    assert np.bincount(labels).tolist() == [3] * 10
    assert (images[:, 1:] == labels[:, None, None, None]).all()
    assert images[:, 0, 0, :2].tolist() == [[1, 2]] * 30


def test_an_image_too_large_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(DataError, match=r"2048"):
        read_png(png(np.zeros((1, 2049), dtype=np.uint8)), "it", "L")


def test_without_pillow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'accous\[deep\]'"):
        read_png(b"", "it", "L")


FOLDER = "faces_aligned_small_mirrored_co_aligned_cropped_cleaned"
YEARS = [1905, 1929, 1930, 1930, 1931, 1944, 1945, 1960, 1999, 2013]


def portraits() -> dict[str, bytes]:
    """Twenty grey portraits, 186 by 171 as published, newest first."""
    generator = np.random.default_rng(0)
    names = [f"{sex}/{year}_City_High_1-{i}.png" for sex in "FM" for i, year in enumerate(YEARS)]
    return {name: png(generator.integers(0, 256, size=(186, 171), dtype=np.uint8)) for name in reversed(names)}


def reduced(content: bytes) -> np.ndarray:
    """As in Wild-Time's preparation."""
    return np.asarray(Image.open(io.BytesIO(content)).resize((32, 32), Image.Resampling.LANCZOS))


def write_folder(data: Path, contents: dict[str, bytes]) -> Path:
    for name, content in contents.items():
        path = data / FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return data / FOLDER


def test_portraits_in_order_of_their_years(data: Path) -> None:
    contents = portraits()
    extra = {"F/._1940_copy_of_macOS.png": b"?", "F/.DS_Store": b"?", "readme.txt": b"?"}
    write_folder(data, contents | extra)
    yearbook = load_yearbook()
    kept = [year for year in YEARS if year >= 1930]
    assert yearbook.years.tolist() == sorted(2 * kept)
    assert yearbook.labels.tolist() == [1, 1, 0, 0] + [1, 0] * 6
    assert yearbook.images.shape == (16, 32, 32, 3)
    assert yearbook.images.dtype == np.uint8
    in_order = sorted((name for name in contents if int(name[2:6]) >= 1930), key=lambda name: (name[2:6], name))
    for image, name in zip(yearbook.images, in_order, strict=True):
        for channel in range(3):
            assert np.array_equal(image[..., channel], reduced(contents[name]))
    assert all(number in yearbook.note for number in ("16", "1930", "37189"))


def test_a_corrupt_portrait_is_named(data: Path) -> None:
    contents = portraits()
    name = "M/1945_City_High_1-6.png"
    write_folder(data, contents | {name: contents[name][:500]})
    with pytest.raises(DataError, match=f"{name} .*PNG"):
        load_yearbook()


@pytest.mark.parametrize("scale", [1, 255])
def test_yearbook_as_wild_time_data_has_it(scale: int) -> None:
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, (5, 32, 32, 1)).astype(np.uint8)
    stored = grey if scale == 255 else grey / 255.0
    groups = {
        "1931": {
            "train": {"images": stored[2:4], "labels": np.array([[1], [0]])},
            "test": {"images": stored[4:], "labels": np.array([1])},
        },
        "1930": {"train": {"images": stored[:2], "labels": np.array([0, 1])}},
    }
    images, labels, years = portraits_from(groups)
    assert np.array_equal(images, np.repeat(grey, 3, axis=3))
    assert images.dtype == np.uint8
    assert labels.tolist() == [0, 1, 1, 0, 1]
    assert years.tolist() == [1930, 1930, 1931, 1931, 1931]
