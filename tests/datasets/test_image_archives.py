"""Published image files: small ones of each format are parsed to the pixel, torn ones are named."""

import gzip
import io
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from accous.datasets.image_archives import (
    CIFAR_CLASSES,
    pad_digits,
    parse_cifar,
    parse_cinic,
    parse_mnist,
    parse_svhn,
)
from accous.datasets.png import read_png
from accous.exceptions import DataError, MissingExtraError


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


# --- MNIST: idx ---------------------------------------------------------------------------------------------------


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


def test_torn_or_foreign_idx_files_are_named(tmp_path: Path) -> None:
    digits, labels = (
        write_idx(tmp_path / "i.gz", random_bytes(5, 28, 28)),
        write_idx(tmp_path / "l.gz", random_bytes(5)),
    )
    short = tmp_path / "short.gz"
    short.write_bytes(gzip.compress(gzip.decompress(digits.read_bytes())[:-1]))
    with pytest.raises(DataError, match=r"short.gz is truncated: it announces \(5, 28, 28\) values and has 3919"):
        parse_mnist(short, labels)
    with pytest.raises(DataError, match=r"l.gz is not an idx file with 3 dimensions of bytes"):
        parse_mnist(labels, labels)
    with pytest.raises(DataError, match="not an idx file"):
        parse_mnist(write_idx(tmp_path / "int.gz", random_bytes(5, 28, 28), kind=12), labels)
    with pytest.raises(DataError, match="as many labels as 28 x 28 images"):
        parse_mnist(digits, write_idx(tmp_path / "six.gz", random_bytes(6)))
    short.write_bytes(digits.read_bytes()[:100])
    with pytest.raises(DataError, match=r"short.gz cannot be read .*: replace it with a complete copy"):
        parse_mnist(short, labels)


# --- SVHN: MATLAB -------------------------------------------------------------------------------------------------


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


def test_torn_or_foreign_mat_files_are_named(tmp_path: Path) -> None:
    path = write_mat(tmp_path / "train.mat", random_bytes(6, 32, 32, 3), random_bytes(6))
    with pytest.raises(DataError, match=r"train.mat has 6 crops, but 7 are needed"):
        parse_svhn(path, n_each=7)
    with pytest.raises(DataError, match=r"X of shape \(28, 32, 3, 6\)"):
        parse_svhn(write_mat(tmp_path / "other.mat", random_bytes(6, 28, 32, 3), random_bytes(6)), n_each=1)
    savemat(tmp_path / "z.mat", {"Z": np.zeros(3)})
    for torn in (path.read_bytes()[:5000], b"", b"no MATLAB file" * 100, (tmp_path / "z.mat").read_bytes()):
        (tmp_path / "torn.mat").write_bytes(torn)
        with pytest.raises(DataError, match=r"torn.mat cannot be read"):
            parse_svhn(tmp_path / "torn.mat", n_each=1)


# --- CIFAR-10: binary records -------------------------------------------------------------------------------------


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
    with pytest.raises(DataError, match=r"c.tar.gz is truncated: its test batch has 3074 bytes"):
        parse_cifar(path)
    with pytest.raises(DataError, match=r"p.tar.gz cannot be read .*test_batch.bin.* not found"):
        parse_cifar(write_tar(tmp_path / "p.tar.gz", {"cifar-10-batches-py/test_batch": b"a pickle"}))
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DataError, match=r"c.tar.gz cannot be read"):
        parse_cifar(path)


# --- CINIC-10: PNG files in a tar ---------------------------------------------------------------------------------


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


def test_choice_does_not_depend_on_the_order_of_the_archive(tmp_path: Path) -> None:
    contents = cinic_contents()
    first = parse_cinic(write_tar(tmp_path / "a.tar.gz", contents), n_per_class=2)
    again = parse_cinic(write_tar(tmp_path / "b.tar.gz", dict(reversed(contents.items()))), n_per_class=2)
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert set(first[0][:, 0, 0, 2].tolist()) == {0, 1, 2}  # not the same files in every class


def test_torn_or_foreign_cinic_archives_are_named(tmp_path: Path) -> None:
    contents, path = cinic_contents(), tmp_path / "cinic.tar.gz"
    with pytest.raises(DataError, match="has 3 test images of ImageNet's airplane, not 4"):
        parse_cinic(write_tar(path, contents), n_per_class=4)
    name = "test/cat/n00000003_1.png"
    with pytest.raises(DataError, match=f"{name} is not a readable PNG image"):
        parse_cinic(write_tar(path, contents | {name: contents[name][:60]}), n_per_class=3)
    with pytest.raises(DataError, match=rf"{name} is an image of shape \(16, 32, 3\)"):
        parse_cinic(write_tar(path, contents | {name: png(random_bytes(16, 32, 3))}), n_per_class=3)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"cinic.tar.gz cannot be read"):
        parse_cinic(path, n_per_class=3)


# --- one PNG ------------------------------------------------------------------------------------------------------


def test_png_in_colours_and_grey() -> None:
    pixels = random_bytes(5, 7, 3)
    assert np.array_equal(read_png(png(pixels), "it", "RGB"), pixels)
    grey = random_bytes(5, 7)
    assert np.array_equal(read_png(png(grey), "it", "RGB"), np.repeat(grey[..., None], 3, axis=2))
    assert np.array_equal(read_png(png(grey), "it", "L"), grey)
    assert read_png(png(pixels), "it", "L", size=(4, 3)).shape == (3, 4)


def flip_a_byte(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]


@pytest.mark.parametrize(
    "spoil", [lambda c: c[:0], lambda c: c[:-30], lambda c: c[:20], flip_a_byte, lambda c: b"GIF89a" + c]
)
def test_spoilt_png_is_named(spoil: Callable[[bytes], bytes]) -> None:
    with pytest.raises(DataError, match=r"F/1930_x.png is not a readable PNG image"):
        read_png(spoil(png(random_bytes(32, 32, 3))), "F/1930_x.png", "L")


def test_an_image_too_large_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(DataError, match=r"a side may have at most 2048"):
        read_png(png(np.zeros((1, 2049), dtype=np.uint8)), "it", "L")


def test_without_pillow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'accous\[deep\]'"):
        read_png(b"", "it", "L")
