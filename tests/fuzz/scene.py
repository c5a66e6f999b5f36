"""A case at work: its folder, its random numbers, the commands it has run, and what was wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from accous.table.readers import partial_path
from tests.fuzz.bases import RATIOS, base_model, put_model
from tests.fuzz.inputs import Inputs
from tests.fuzz.invariants import (
    loaded,
    problems_of_json,
    problems_of_predictions,
    problems_of_report,
    problems_of_run,
)
from tests.fuzz.running import Run, run_command

__all__ = ["Scene"]


class Scene:
    """Where a case plays.

    Parameters
    ----------
    random : Random
        All that the case draws comes from here.
    folder : Path
        Empty, and of this case alone.
    table_format : str
    """

    def __init__(self, random: Random, folder: Path, table_format: str) -> None:
        self.random, self.folder, self.table_format = random, folder, table_format
        self.model = folder / "model"
        self.predicts_numbers = False
        self.runs: list[Run] = []
        self.problems: list[str] = []
        self.done: list[str] = []

    def run(self, *arguments: object, stdin: Path | None = None) -> Run:
        """Run a command, and check what must hold for every command."""
        run = run_command([str(argument) for argument in arguments], stdin)
        self.runs.append(run)
        self.problems += problems_of_run(run)
        if run.exit_code == 0 and "--json" in run.arguments:
            self.problems += problems_of_json(run.out)
        return run

    def expect(self, is_so: bool, what: str) -> None:
        """Take down what is not so."""
        if not is_so:
            self.problems.append(what)

    def put_model(self, *, is_embedding: bool, is_experienced: bool | None = None) -> None:
        """Put a model that works into the folder, of classes or of numbers."""
        ratio = self.random.choice(RATIOS) if self.random.random() < 0.2 else "accous"
        kinds = ["embedding", "embedding with numbers"] if is_embedding else ["table", "three classes", "numbers"]
        kind = self.random.choice(kinds)
        self.predicts_numbers = "numbers" in kind
        if is_experienced is None:
            is_experienced = self.random.random() < 0.3
        put_model(base_model(kind, ratio, is_experienced=is_experienced), self.model)

    @property
    def n_classes(self) -> int | None:
        """For rows that go with the model: how many classes they have, or None for numbers."""
        return None if self.predicts_numbers else 2

    def write(self, inputs: Inputs) -> None:
        """Write the mutated files of a case."""
        inputs.write()
        self.done += inputs.done

    def check_inputs(self, inputs: Inputs) -> None:
        """No command changes what it reads."""
        changed = [path.name for path, content in inputs.files.items() if path.read_bytes() != content]
        self.expect(not changed, f"input files were changed: {changed}")

    def check_predictions(self, output: Path, kept: list[str]) -> None:
        """What the last run has written is what it says it has."""
        table_model = loaded(self.model)
        job = table_model.job
        if job is None or job.spec.output != str(output):
            return
        text = output
        if output.suffix == ".parquet" and not job.is_finished:
            text = Path(partial_path(str(output)))
        if not text.exists():
            self.expect(job.n_rows == 0, f"{job.n_rows} rows were read, and there are no predictions")
            return
        classes = table_model.kind.names
        self.problems += problems_of_predictions(text, job.n_output_bytes, classes, kept, job.n_rows)

    def look_at_model(self) -> None:
        """Inspect the model and report on it, as it is now."""
        if self.random.random() < 0.5:
            run = self.run("inspect", self.model, "--json")
            self.expect(run.exit_code != 0 or "rounds" in json.loads(run.out), "inspect --json has no rounds")
        elif self.random.random() < 0.5:
            self.run("inspect", self.model)
        if self.random.random() < 0.3:
            report = self.folder / "report.html"
            if self.run("report", self.model, "-o", report, "--force").exit_code == 0:
                self.problems += problems_of_report(report)
