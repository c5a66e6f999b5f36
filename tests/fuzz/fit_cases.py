"""Cases of ``accous fit``: a mutated reference, then what can be done with the model that came of it."""

from __future__ import annotations

from tests.fuzz.bases import RATIOS
from tests.fuzz.inputs import Inputs, draw_inputs
from tests.fuzz.invariants import files_in, loaded
from tests.fuzz.scene import Scene

__all__ = ["fit_a_reference"]


def fit_a_reference(scene: Scene) -> None:
    """Fit; a model that comes of it must work, and one that was there before must stay if none does."""
    random = scene.random
    is_embedding = scene.table_format == "npy" or (scene.table_format == "parquet" and random.random() < 0.2)
    inputs = draw_inputs(
        random, scene.folder, "reference", scene.table_format, random.choice([20, 30, 40]),
        n_classes=random.choice([2, 3, 5, None]), is_embedding=is_embedding,
    )  # fmt: skip
    scene.write(inputs)
    is_there = random.random() < 0.15
    if is_there:
        scene.put_model(is_embedding=is_embedding)
    before = files_in(scene.model) if is_there else {}
    options = _draw_options(scene, inputs)
    rejects = scene.folder / "rejects.csv"
    if is_foreign := "--rejects" in options and random.random() < 0.3:
        rejects.write_text("not ours")
    stdin = inputs.path if inputs.is_text and random.random() < 0.08 else None
    table = [*inputs.options, *(["--format", scene.table_format] if stdin else [])]
    reference = "-" if stdin else inputs.path
    name = random.choice(["--label", "--target"])
    run = scene.run("fit", reference, name, inputs.label, "-o", scene.model, *table, *options, stdin=stdin)
    scene.check_inputs(inputs)
    if is_foreign and "--force" not in options:
        scene.expect(rejects.read_text() == "not ours", "rejects replaced a file of somebody else's")
    if run.exit_code != 0:
        after = files_in(scene.model) if scene.model.exists() else {}
        scene.expect(after == before, "a fit that failed left something in the model's folder")
        return
    _use_model(scene, inputs)


def _use_model(scene: Scene, inputs: Inputs) -> None:
    loaded(scene.model)
    scene.look_at_model()
    if scene.random.random() < 0.4:
        output = scene.folder / "predictions.csv"
        options = ["--batch-size", "4", *scene.random.choice([[], ["--on-bad-row", "skip"]]), *inputs.options]
        run = scene.run("adapt", scene.model, inputs.path, "-o", output, "-q", *options)
        if run.exit_code == 0:
            scene.check_predictions(output, [])
        scene.look_at_model()


def _draw_options(scene: Scene, inputs: Inputs) -> list[str]:
    random, options = scene.random, list[str]()
    if random.random() < 0.6:
        options.append("-q")
    if random.random() < 0.4:
        options.append("--json")
    if random.random() < 0.4:
        options += ["--on-bad-row", "skip"]
        if random.random() < 0.5:
            options += ["--rejects", str(scene.folder / "rejects.csv")]
    if random.random() < 0.3:
        options += ["--ratio", random.choice(RATIOS)]
    if inputs.columns and random.random() < 0.2:
        options += ["--categorical", random.choice(inputs.columns)]
    if inputs.columns and random.random() < 0.1:
        options += ["--drop", random.choice(inputs.columns)]
    if random.random() < 0.1:
        options += ["--C", random.choice(["1e-6", "1e90", "1e300", "0", "-1", "nan", "inf"])]
    if random.random() < 0.15:
        options.append("--force")
    return options + _draw_task(scene)


def _draw_task(scene: Scene) -> list[str]:
    """Options about numbers to predict; most cases leave it to the labels what is predicted."""
    random = scene.random
    options = ["--task", random.choice(["classification", "regression"])] if random.random() < 0.2 else []
    if random.random() < 0.05:
        options += ["--alpha", random.choice(["1e-300", "1e300", "0", "-1", "nan"])]
    return options
