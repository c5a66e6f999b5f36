from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accous.exceptions import DataError, ParameterError
from accous_bench import contenders
from accous_bench.spec import find_spec, prepare, read_spec, spec_names

WriteSpec = Callable[..., Path]


def test_the_grid_is_the_product_of_its_lists(write_spec: WriteSpec) -> None:
    spec = read_spec(write_spec(("batch_sizes = [5]", "batch_sizes = [1, 5]")))
    runs = spec.runs()
    assert len(runs) == len({run.identity() for run in runs}) == 2 * 2 * 4 * 2
    assert runs[0].names == {
        "dataset": "gaussian", "shift": "Lin", "batch_size": 1, "contender": "FIX", "seed": 0, "n_rounds": 24,
        "protocol": "predict_first",
    }  # fmt: skip


@pytest.mark.parametrize("name", spec_names())
def test_the_specs_that_come_along_are_valid(name: str) -> None:
    assert read_spec(find_spec(name)).runs()


def test_table3_is_the_papers() -> None:
    spec = read_spec(find_spec("table3"))
    assert spec.rounds == (10_000,)
    assert spec.batch_sizes == (1, 5)
    assert spec.seeds == (0, 1, 2, 3, 4)
    assert set(spec.contenders) >= {*contenders.PAPER_CONTENDERS, "KLIEP (cv)", "uLSIF (cv)", "oracle"}


@pytest.mark.parametrize("name", [name for name in spec_names() if name != "smoke"])
def test_every_measurement_has_five_seeds_and_predicts_first(name: str) -> None:
    spec = read_spec(find_spec(name))
    assert spec.seeds == (0, 1, 2, 3, 4)
    assert spec.protocol == "predict_first"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"uLSIF"', '"uLSFI"', "no contender 'uLSFI'"),
        ('"Squ"]', '"Sqr"]', "shifts has no 'Sqr'"),
        ('["gaussian"]', '["gauss"]', "'gauss'"),
        ("rounds = [24]", "rounds = [-24]", "got -24"),
        ("rounds = [24]", "rounds = [24, 24]", "rounds names"),
        ("rounds = [24]", 'rounds = ["many"]', "rounds has 'many'"),
        ("batch_sizes = [5]", "batch_sizes = []", "batch_sizes is empty"),
        ("seeds = 2", "seeds = 0", "seeds is empty"),
        ("seeds = 2", "seeds = [0, -1]", "got -1"),
        ("seeds = 2", "seeds = true", "seeds has True"),
        ("seeds = 2", "seed = 2", "no 'seed' (did you mean 'seeds'"),
        ("seeds = 2", "score_every = 0", "score_every must"),
        ("seeds = 2", 'record = ["weights"]', "no 'weights'"),
        ("seeds = 2", 'record = ["regret"]', "moving_gaussian only"),
        ("seeds = 2", 'plugins = ["mine.py"]', "'mine.py'"),
        ("seeds = 2", "title = 3", "overwrite"),
        ('title = "Small"', "title = 3", "title must be"),
        ("n_features = 3", "n_columns = 3", "'n_columns'"),
        ("[options.gaussian]", "[options.gauss]", "'gauss'"),
        ("n_features = 3", "[parameters.accous]\nspeed = 3", "accous has no parameter 'speed'"),
        ('"Squ"]', '"natural"]', "Lin, Squ, Sin, Ber, none, Squ16"),
        ("seeds = 2", "seeds = = 2", "is not TOML"),
    ],
)
def test_a_bad_spec_is_refused_with_the_setting_at_fault(
    write_spec: WriteSpec, old: str, new: str, complaint: str
) -> None:
    path = write_spec((old, new))
    with pytest.raises(ParameterError) as caught:
        read_spec(path)
    message = str(caught.value)
    assert str(path) in message
    assert complaint in message
    assert message.endswith(".")


def test_a_missing_list_is_named(write_spec: WriteSpec) -> None:
    with pytest.raises(ParameterError, match="rounds is missing"):
        read_spec(write_spec(("rounds = [24]\n", "")))


def test_data_that_cannot_be_had_is_refused_before_anything_runs(
    write_spec: WriteSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from accous_bench import problems

    problems._halves.cache_clear()
    monkeypatch.setenv("ACCOUS_DATA", str(tmp_path))
    monkeypatch.setenv("ACCOUS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", _no_network)
    spec = read_spec(
        write_spec(('["gaussian"]', '["diabetes"]'), ("[options.gaussian]\nn_reference = 60\nn_features = 3", ""))
    )
    with pytest.raises(DataError, match="set ACCOUS_DATA"):
        prepare(spec)


def _no_network(**_: object) -> None:
    raise OSError("no route to host")


def test_a_part_of_the_grid_can_be_chosen(write_spec: WriteSpec) -> None:
    spec = read_spec(write_spec())
    part = spec.only(contenders=["accous"], seeds=[1])
    assert {(run.names["contender"], run.names["seed"]) for run in part.runs()} == {("accous", 1)}
    with pytest.raises(ParameterError, match=r"'contenders' .*'KMM'"):
        spec.only(contenders=["KMM"])


def test_a_plugin_that_fails_is_named(write_spec: WriteSpec, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(ParameterError, match=r"plugins: broken\.py .*ZeroDivisionError"):
        read_spec(write_spec(("seeds = 2", 'seeds = 2\nplugins = ["broken.py"]')))


def test_parameters_change_the_model_and_the_identity(write_spec: WriteSpec) -> None:
    plain = read_spec(write_spec()).only(contenders=["accous"]).runs()[0]
    changed = read_spec(write_spec(("n_features = 3", "n_features = 3\n[parameters.accous]\nratio__step_size = 2.0")))
    run = changed.only(contenders=["accous"]).runs()[0]
    assert run.model().ratio.step_size == 2.0
    assert run.identity() != plain.identity()


def test_a_protocol_is_checked(write_spec: Callable[..., Path]) -> None:
    assert read_spec(write_spec()).protocol == "predict_first"
    spec = read_spec(write_spec(("seeds = 2", 'seeds = 2\nprotocol = "batch_first"\none_step_every = 3')))
    assert {run.protocol for run in spec.runs()} == {"batch_first"}
    assert {run.measures.one_step_every for run in spec.runs()} == {3}
    with pytest.raises(ParameterError, match=r"protocol .*'batch first' .*'batch_first'"):
        read_spec(write_spec(("seeds = 2", 'seeds = 2\nprotocol = "batch first"')))
