"""Yearbook: portraits from an archive or folder of the published form, made here."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from accous import datasets
from accous.datasets.yearbook import parse_yearbook
from accous.exceptions import DataError
from tests.datasets.test_image_archives import png, write_tar

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


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty data folder and an empty cache."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("ACCOUS_DATA", str(folder))
    monkeypatch.setenv("ACCOUS_CACHE", str(tmp_path / "cache"))
    return folder


def write_archive(data: Path, contents: dict[str, bytes]) -> Path:
    return write_tar(data / f"{FOLDER}.tar.gz", {f"{FOLDER}/{name}": content for name, content in contents.items()})


def write_folder(data: Path, contents: dict[str, bytes]) -> Path:
    for name, content in contents.items():
        path = data / FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return data / FOLDER


@pytest.mark.parametrize("write", [write_archive, write_folder])
def test_portraits_in_order_of_their_years(data: Path, write) -> None:
    contents = portraits()
    extra = {"F/._1940_copy_of_macOS.png": b"?", "F/.DS_Store": b"?", "readme.txt": b"?"}
    write(data, contents | extra)
    yearbook = datasets.load("yearbook")
    kept = [year for year in YEARS if year >= 1930]
    assert yearbook.years.tolist() == sorted(2 * kept)
    assert yearbook.labels.tolist() == [1, 1, 0, 0] + [1, 0] * 6
    assert yearbook.images.shape == (16, 32, 32, 3)
    assert yearbook.images.dtype == np.uint8
    in_order = sorted((name for name in contents if int(name[2:6]) >= 1930), key=lambda name: (name[2:6], name))
    for image, name in zip(yearbook.images, in_order, strict=True):
        for channel in range(3):
            assert np.array_equal(image[..., channel], reduced(contents[name]))
    assert "has 16 portraits from 1930 on, not 37189 as published" in yearbook.notes[0]
    assert repr(yearbook) == "ImageYears(yearbook: 16 images, 1930 to 2013)"


def test_what_was_read_is_kept_until_the_archive_changes(data: Path, tmp_path: Path) -> None:
    contents = portraits()
    write_archive(data, contents)
    first = datasets.load_yearbook()
    (cached,) = (tmp_path / "cache").glob("*.npz")
    assert np.array_equal(datasets.load_yearbook().images, first.images)

    cached.write_bytes(cached.read_bytes()[:1000])
    with pytest.raises(DataError, match="cannot be read"):  # so it is the cache that is read
        datasets.load_yearbook()

    write_archive(data, {name: content for name, content in contents.items() if "1930" not in name})
    assert len(datasets.load_yearbook().years) == 12


def test_what_was_changed_in_the_cache_is_refused(data: Path, tmp_path: Path) -> None:
    write_archive(data, portraits())
    datasets.load_yearbook()
    (cached,) = (tmp_path / "cache").glob("*.npz")
    with np.load(cached) as file:
        arrays = dict(file)
    np.savez(cached, **(arrays | {"years": arrays["years"] + 1}))
    with pytest.raises(DataError, match="is damaged: delete it"):
        datasets.load_yearbook()


def test_a_cache_that_cannot_be_written_is_a_warning(data: Path, tmp_path: Path) -> None:
    write_archive(data, portraits())
    (tmp_path / "cache").write_bytes(b"in the way")
    with pytest.warns(RuntimeWarning, match=r"yearbook_32_.* cannot be written .*; set ACCOUS_CACHE to a folder"):
        assert len(datasets.load_yearbook().years) == 16


@pytest.mark.parametrize("write", [write_archive, write_folder])
def test_a_corrupt_portrait_is_named(data: Path, write, tmp_path: Path) -> None:
    contents = portraits()
    name = "M/1945_City_High_1-6.png"
    write(data, contents | {name: contents[name][:500]})
    with pytest.raises(DataError, match=f"{name} is not a readable PNG image"):
        datasets.load_yearbook()
    assert not list((tmp_path / "cache").glob("*.npz"))


@pytest.mark.parametrize("name", ["F/City_1930.png", "M/19_x.png", "F/193000_x.png", "F/1930_x.jpg", "M/1930.png"])
def test_a_wrong_name_is_named(data: Path, name: str) -> None:
    write_archive(data, portraits() | {name: b"?"})
    with pytest.raises(DataError, match=f"{name} does not start with a year, as in F/1930_"):
        datasets.load_yearbook()


def test_archives_without_portraits_or_torn_are_named(data: Path) -> None:
    path = write_archive(data, {"X/1930_x.png": b"?"})
    with pytest.raises(DataError, match="has no portraits from 1930 on"):
        parse_yearbook(path)
    path.write_bytes(b"<html>not found</html>")
    with pytest.raises(DataError, match=r"tar.gz cannot be read .*: replace it with a complete copy"):
        parse_yearbook(path)
    whole = write_archive(data, portraits()).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError):
        parse_yearbook(path)
