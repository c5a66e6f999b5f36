"""What may be passed as rows, what it means, and what is said about the rest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")
Image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'accous[deep]'")

from accous.deep import BackboneFeatures, embeddings_of  # noqa: E402
from accous.deep.networks import Preparation, find_float_range  # noqa: E402
from accous.deep.rows import ArrayRows, read_rows  # noqa: E402
from accous.exceptions import DataError, ParameterError  # noqa: E402
from tests.budgets import examples  # noqa: E402
from tests.deep.networks import images, small_convolution, small_linear  # noqa: E402


def fitted(**parameters):
    settings = {"image_size": 12, "random_state": 0, "n_jobs": 1, **parameters}
    return BackboneFeatures(small_convolution(), **settings).fit(images())


def slow_bilinear(image, size):
    """One channel enlarged: every output pixel's centre lies between four input pixels, edges repeated."""
    height, width = image.shape
    result = np.empty((size, size))
    for row in range(size):
        for column in range(size):
            y = min(max((row + 0.5) * height / size - 0.5, 0), height - 1)
            x = min(max((column + 0.5) * width / size - 0.5, 0), width - 1)
            top, left = int(y), int(x)
            bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
            v, u = y - top, x - left
            upper = (1 - u) * image[top, left] + u * image[top, right]
            lower = (1 - u) * image[bottom, left] + u * image[bottom, right]
            result[row, column] = (1 - v) * upper + v * lower
    return result


@examples(20)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(6, 9), st.integers(0, 99))
def test_enlarging_is_bilinear_and_grey_becomes_three_channels(height, width, size, seed):
    image = np.random.default_rng(seed).integers(0, 256, (1, height, width), dtype=np.uint8)
    found = Preparation(size, (127.0,), (128.0,)).prepare(image).numpy()
    assert found.shape == (1, 3, size, size)
    for channel in found[0]:
        np.testing.assert_allclose(channel, (slow_bilinear(image[0].astype(float), size) - 127) / 128, atol=1e-5)


def test_shrinking_averages():
    stripes = np.zeros((1, 64, 64), dtype=np.uint8)
    stripes[:, :, ::2] = 200
    found = Preparation(8).prepare(stripes).numpy()
    np.testing.assert_allclose(found, 100, atol=8)


def test_all_forms_of_the_same_images_give_the_same_features(tmp_path):
    X = images(6)
    model = fitted()
    expected = model.transform(X)
    pictures = [Image.fromarray(image) for image in X]
    paths = [tmp_path / f"{row}.png" for row in range(len(X))]
    for path, picture in zip(paths, pictures, strict=True):
        picture.save(path)
    forms = {
        "pictures": pictures,
        "paths": paths,
        "array of path names": np.array([str(path) for path in paths]),
        "list of arrays": list(X),
        "channels first": np.ascontiguousarray(X.transpose(0, 3, 1, 2)),
        "tensor": torch.from_numpy(X.transpose(0, 3, 1, 2).copy()),
        "floats": X.astype(np.float64),
        "int64": X.astype(np.int64),
    }
    for name, form in forms.items():
        np.testing.assert_allclose(model.transform(form), expected, atol=1e-5, err_msg=name)


def test_grey_in_every_form():
    X = images(6, channels=None)
    model = fitted()
    expected = model.transform(np.repeat(X[..., None], 3, axis=3))
    for form in (X, X[..., None], [Image.fromarray(image) for image in X], X[:, None]):
        np.testing.assert_allclose(model.transform(form), expected, atol=1e-5)


def test_images_of_different_sizes():
    model = fitted()
    small, large = images(1, size=5)[0], images(1, size=30)[0]
    found = model.transform([small, large])
    np.testing.assert_allclose(found[0], model.transform(small[None])[0], atol=1e-5)
    np.testing.assert_allclose(found[1], model.transform(large[None])[0], atol=1e-5)


def test_floats_from_0_to_1_are_pixels_too():
    X = images()
    unit = BackboneFeatures(small_convolution(), image_size=12, random_state=0).fit(X / 255)
    np.testing.assert_allclose(unit.transform(X[:3] / 255), fitted().transform(X[:3]), atol=1e-4)
    np.testing.assert_allclose(unit.transform(X[:3]), fitted().transform(X[:3]), atol=1e-4)
    assert find_float_range(ArrayRows(X / 255.0)) == 1.0
    assert find_float_range(ArrayRows(X.astype(float))) == 255.0
    assert find_float_range(ArrayRows(X)) is None


def test_floats_from_0_to_1_after_a_reference_of_integers_are_refused():
    X, model = images(), fitted()
    for batch in (X[:3] / 255, [X[0] / 255, X[1, :5] / 255]):
        with pytest.raises(DataError, match=r"from 0 to 255: .* 255"):
            model.transform(batch)
    np.testing.assert_array_equal(model.transform(np.zeros((2, 12, 12, 3))), model.transform(0 * X[:2]))


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.float32])
def test_pictures_of_more_than_8_bits_are_refused(tmp_path, dtype):
    picture = Image.fromarray((200 * images(1, channels=None)[0].astype(int)).astype(dtype))
    picture.save(tmp_path / "deep.tiff")
    with pytest.raises(DataError, match=r"deep\.tiff .*mode '[IF].*8 bits"):
        fitted().transform([tmp_path / "deep.tiff"])
    with pytest.raises(DataError, match=r"row 1 .*mode"):
        fitted().transform([Image.fromarray(images(1)[0]), picture])


def test_files_for_a_module_without_an_image_size(tmp_path):
    X = images(8)
    paths = []
    for row, image in enumerate(X):
        paths.append(tmp_path / f"{row}.png")
        Image.fromarray(image).save(paths[-1])
    plain = BackboneFeatures(small_convolution(), random_state=0).fit(paths)
    expected = BackboneFeatures(small_convolution(), random_state=0).fit_transform(X.transpose(0, 3, 1, 2))
    np.testing.assert_allclose(plain.transform(paths), expected, atol=1e-5)


def test_without_an_image_size_arrays_stay_as_they_are_whatever_their_types():
    X = images(6, size=4)
    mixed = [*X[:5], X[5].astype(float)]
    found = [embeddings_of(form, torch.nn.Flatten(), n_jobs=1) for form in (X, list(X), mixed)]
    for embeddings in found:
        np.testing.assert_array_equal(embeddings, X.reshape(6, -1))


@pytest.mark.parametrize("content", [b"", b"no image", None])
def test_a_corrupt_file_is_named(tmp_path, content):
    path = tmp_path / "broken.png"
    Image.fromarray(images(1)[0]).save(path)
    path.write_bytes(path.read_bytes()[:60] if content is None else content)
    with pytest.raises(DataError, match=r"broken\.png"):
        fitted().transform([path])
    with pytest.raises(DataError, match=r"missing\.png"):
        fitted().transform([tmp_path / "missing.png"])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (images(3, channels=4), "1 or 3 channels"),
        (images(3, channels=2), "1 or 3 channels"),
        (images(1)[0], "a single image"),
        (np.zeros((3, 5)), "Images of shape"),
        (np.zeros((0, 12, 12, 3)), "empty input"),
        ([], "empty input"),
        (np.zeros((2, 0, 12, 3)), "without pixels"),
        ("a.png", "single path"),
        (np.array(3.0), "single value"),
        (np.zeros((3, 12, 12), dtype=complex), "Complex data"),
        ([np.zeros((4, 4)), np.array(["a"])], "not numbers"),
        (images(3).astype(np.uint16) * 200, "from 0 to 255"),
        (np.full((3, 12, 12, 3), np.nan), "features of row 0 are not finite"),
    ],
)
def test_what_cannot_be_images_is_refused(X, message):
    with pytest.raises(DataError, match=message):
        fitted().transform(X)


def test_standardised_images_are_refused():
    X = np.random.default_rng(0).normal(size=(20, 8, 8, 3))
    with pytest.raises(DataError, match="look standardised"):
        BackboneFeatures(small_convolution(), image_size=8).fit(X)


def test_rows_of_another_shape_than_the_reference():
    X = np.random.default_rng(0).normal(size=(20, 5))
    model = BackboneFeatures(small_linear(), random_state=0).fit(X)
    with pytest.raises(DataError, match=r"4 features, .*expecting 5"):
        model.transform(X[:, :4])
    with pytest.raises(DataError, match=r"shape \(1, 5\), .*\(5,\)"):
        model.transform(X[:, None])
    with pytest.raises(DataError, match="set image_size"):
        BackboneFeatures(small_convolution()).fit([images(1, size=5)[0], images(1, size=6)[0]])


class Returns(torch.nn.Module):
    """Returns what it was made with, or calls it."""

    def __init__(self, output):
        super().__init__()
        self.output = output

    def forward(self, rows):
        return self.output(rows)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (lambda rows: rows.mean(dim=1), r"tensor of shape \(20, d\)"),
        (lambda rows: (rows,), "got a tuple"),
        (lambda rows: rows[:3], r"got shape \(3, 5\)"),
        (lambda rows: rows @ torch.zeros(7, 2), r"cannot take .*\(20, 5\)"),
        (lambda rows: rows * torch.inf, "features of row 0 are not finite"),
    ],
)
def test_what_a_module_must_not_do(output, message):
    with pytest.raises(DataError, match=message):
        BackboneFeatures(Returns(output)).fit(np.random.default_rng(0).normal(size=(20, 5)))


def test_a_module_whose_width_depends_on_the_rows():
    X = np.random.default_rng(0).normal(size=(20, 5))
    by_size = Returns(lambda rows: rows[:, : 2 + len(rows) % 3])
    with pytest.raises(DataError, match="different width"):
        BackboneFeatures(by_size, batch_size=9).fit(X)
    model = BackboneFeatures(by_size).fit(X)
    with pytest.raises(DataError, match=r"2 features .* 4"):
        model.transform(X[:3])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"backbone": "vgg"}, "'efficientnet_lite0', 'resnet34', got 'vgg'"),
        ({"backbone": 3}, r"torch\.nn\.Module"),
        ({"image_size": 0}, "image_size"),
        ({"n_components": 0}, "n_components"),
        ({"max_norm": 0}, "max_norm"),
        ({"batch_size": 0}, "batch_size"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ParameterError, match=message):
        BackboneFeatures(**{"backbone": small_convolution(), "image_size": 12, **parameters}).fit(images())


@pytest.mark.parametrize("parameter", ["image_size", "batch_size", "n_jobs"])
def test_parameters_of_embeddings_alone_are_checked(parameter):
    with pytest.raises(ParameterError, match=parameter):
        embeddings_of(images(4), small_convolution(), **{"image_size": 12, parameter: 0})


def test_arrays_that_must_not_be_written_into():
    model = fitted()
    X = images(4).astype(np.float32)
    expected = model.transform(X)
    for image in (rows := list(X)):
        image.flags.writeable = False
    np.testing.assert_allclose(model.transform(rows), expected, atol=1e-5)
    rows.append(images(1, size=7)[0])
    np.testing.assert_allclose(model.transform(rows)[:4], expected, atol=1e-5)


def test_booleans_are_black_and_white():
    X = images(4, channels=None) > 127
    np.testing.assert_array_equal(fitted().transform(X), fitted().transform(255 * X.astype(np.uint8)))


def test_reading_rows_copies_nothing():
    X = images()
    assert read_rows(X).array is X
