"""Recipe: a contender is one call of `register`."""

from accous import RULSIF, AdaptiveClassifier
from accous_bench import contenders
from accous_bench.grid import MeasurePlan, Run, run_one
from accous_bench.problems import Setting, get_problem


def test_it_is_known_and_runs(monkeypatch):
    monkeypatch.setattr(contenders, "_CONTENDERS", dict(contenders._CONTENDERS))
    contenders.register(contenders.Contender("toy", lambda seed: AdaptiveClassifier(ratio=RULSIF(random_state=seed))))
    assert "toy" in contenders.contender_names()
    setting = Setting("Squ", 3, 5, 0, {"n_reference": 80, "n_features": 3})
    row = run_one(Run("test", get_problem("gaussian"), contenders.get_contender("toy"), setting, MeasurePlan(1)))
    assert row["contender"] == "toy"
    assert 0.0 <= row["error"] <= 1.0
