"""Recipe: a contender is one call of `register`, at the benchmark's address or at its earlier one."""

from importlib import import_module

import pytest

from accous import RULSIF, AdaptiveClassifier
from accous_bench import contenders
from accous_bench.problems import Setting, get_problem
from accous_bench.run import Measures, Run, play


@pytest.mark.parametrize("address", ["accous.bench.contenders", "accous_bench.contenders"])
def test_it_is_known_under_both_addresses_and_runs(address, monkeypatch):
    monkeypatch.setattr(contenders, "_CONTENDERS", dict(contenders._CONTENDERS))
    module = import_module(address)
    module.register(module.Contender("toy", lambda seed: AdaptiveClassifier(ratio=RULSIF(random_state=seed))))
    assert "toy" in contenders.contender_names()
    assert "toy" in import_module("accous.bench").contenders.contender_names()
    setting = Setting("Squ", 3, 5, 0, {"n_reference": 80, "n_features": 3})
    row = play(Run("test", get_problem("gaussian"), contenders.get_contender("toy"), setting, Measures(1)))
    assert row["contender"] == "toy"
    assert 0.0 <= row["error"] <= 1.0
