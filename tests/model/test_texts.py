"""What people read: printed readings as a whole, messages, and what a notebook shows."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import accous
from accous import AdaptiveClassifier, AdaptiveRegressor, backtest
from accous.diagnostics.drift import rounds_in_words
from accous.model import snapshot as notebook
from accous.model.snapshot import Snapshot
from tests.classifiers import drifting_batches, labelled_rows, play


def rows(n_rows, seed, by=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    return X + by, (X[:, 0] + 0.5 * rng.normal(size=n_rows) > 0.0).astype(int)


READINGS = """
The estimated error of the predictor in use is 16.0% (between 8.6% and 46.1%). That of the fixed model is 16.0% (between 8.6% and 46.1%). Nominal coverage of the intervals: 90%.
Verdict: not verified.
Inputs covered? Not known. 20% of the recent rows lie unusually far from the reference (5% would be normal).
Adaptation better? Not known. The adapted model predicts only while it is clearly better than the fixed model on the weighted reference, because rows of the reference differ from the rows before them. The fixed model predicts now. Labels score what was predicted, so they say nothing about the adapted model: to compare, let a second model that always adapts (adaptation="always") predict the same rows, and give it the same labels.
Estimate believable? Not known. The error may lie anywhere between 9% and 46%.
By 100 labels (those given last count most), the error is 17.0% (11.7% to 24.0%); the estimate for these rows is 16.0% (8.6% to 46.1%), without labels; they do not contradict each other.
Column 'x1' ranged from -3.89942 to 2.8745 in the reference and is clearly above it in 5.2% of the recent rows.
Regime 1: rounds 61 to 120, now in force; differs in x1.
Backtest: estimated error 16.7%, measured 15.0% (mean of 7 looks): verified.
Adaptation would have lowered the error by 0.1 points. The adapted model predicts only while it is clearly better than the fixed model on the weighted reference, because rows of the reference differ from the rows before them.
Its models were fitted once, on the first 40%, 60% and 80% of the rows, and predicted the rest without new labels, as on a stream.
"""  # noqa: E501
READINGS_OF_NUMBERS = """
The estimated squared loss of the predictor in use is 0.135 (between 0.108 and 0.161). That of the fixed model is 0.135 (between 0.108 and 0.161). Nominal coverage of the intervals: 90%.
Verdict: not verified.
Inputs covered? Yes. The inputs lie where the reference has rows.
Adaptation better? Not known. The estimated weights are nearly equal: there is nothing to adapt to. The fixed model predicts now.
Estimate believable? Yes. In the backtest such estimates were close to the truth.
By 50 labels (those given last count most), the root mean squared error is 48 (40.7 to 54.3); the estimate for these rows is 0.368 (0.328 to 0.401), without labels; they contradict each other: rely on the measured error. By the latest labels, P(y | x) seems to have changed: only new labels in the reference can correct that.
Backtest: estimated root mean squared error 0.405, measured 0.402 (mean of 7 looks): verified.
Adaptation would have raised the root mean squared error by 1% of the mean squared error on the reference. The adapted model predicts only while it is clearly better than the fixed model on the weighted reference, because rows of the reference differ from the rows before them.
"""  # noqa: E501


def test_readings_of_a_classifier():
    model = AdaptiveClassifier().fit(*rows(600, 0), order=True)
    play(model, (rows(5, 100 + number, by=np.array([0.0, 1.5 * (number > 40), 0.0]))[0] for number in range(120)))
    model.observe(*rows(100, 7))
    found = [model.risk_, model.trust_, model.measured_, *model.coverage_.sentences, *model.regimes_]
    found += [*model.backtest_.sentences, model.backtest_.how]
    assert "\n".join(map(str, found)) == READINGS.strip()


@pytest.mark.filterwarnings("ignore::accous.exceptions.TrapWarning")
def test_readings_of_a_regressor():
    X, y = rows(600, 0)
    model = AdaptiveRegressor(loss="squared").fit(X, 50.0 * X[:, 0] + y, order=True)
    found = [model.risk_, model.adapt(rows(100, 3)[0]).trust_, model.observe(*rows(50, 5)).measured_]
    assert "\n".join(map(str, [*found, *model.backtest_.sentences])) == READINGS_OF_NUMBERS.strip()
    assert "Estimated root mean squared error" in model._repr_html_()


def test_edge_cases_of_readings():
    X, y = rows(400, 0)
    model = AdaptiveClassifier().fit(X[:6], [0, 1, 0, 1, 0, 1])
    unknown = "The error of the predictor in use is not known: "
    assert str(model.risk_).startswith(f"{unknown}no batch has come yet")
    assert "no batch has come yet" in model._repr_html_()
    assert str(model.adapt(X[:10]).risk_) == f"{unknown}the reference does not cover the inputs."
    old = replace(AdaptiveClassifier().fit(X, y).risk_, age=7)
    assert "7 rounds old" in str(old)
    assert "'7' (30)" in AdaptiveClassifier().fit(X, y).observe(X[:30], np.full(30, 7)).measured_.sentence
    many = tuple((16 * k + 1, 16 * k + 16) for k in range(5))
    assert rounds_in_words(many) == "5 visits, the last in rounds 33 to 48, 49 to 64 and 65 to 80"
    few = backtest(AdaptiveClassifier(), X[:300], y[:300])
    assert few.sentences[0].endswith("(mean of 4 looks): not verified, because at least 5 looks are needed.")
    assert "count as errors ('0', '1', '2', '3', '4', ...)" in replace(few, later_classes=tuple("01234567")).how
    doubted = replace(few.evidence, fixed=replace(few.evidence.fixed, unexplained=0.9), drift=0.5, gain=-0.1)
    assert "by 10.0 points on the replayed rows. " in replace(few, evidence=doubted).sentences[1]


MESSAGES = """
X has no column 'c', which the reference has: add it, or correct its name. X has 'C', which the reference has not.
X has 2 features, but AdaptiveClassifier is expecting 3 features as input: pass the columns of the reference, in the same order.
X must have rows and columns, got one dimension. Reshape your data: a single row is X.reshape(1, -1) or frame.iloc[[0]], and [row] of a list.
Column 'b' cannot be read as numbers in row 0 (could not convert string to float: 'many'). Encode or drop it, or use a transformer that encodes it in both parts: AdaptiveClassifier(make_pipeline(transformer, classifier), OnlineDensityRatio(feature_map=transformer)).
y holds None in row 0: give every row a label, or leave rows without one out.
This AdaptiveClassifier is not fitted yet: call fit first.
refit must be 'auto', 'always' or a positive integer, got 0.
adapt takes no labels: pass those that arrive late to observe(X, y), which measures and learns.
"""  # noqa: E501


def test_messages():
    (X, y), found = rows(120, 0), []
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = AdaptiveClassifier().fit(frame, y)
    for call in (
        lambda: model.step(frame.rename(columns={"c": "C"})),
        lambda: AdaptiveClassifier().fit(X, y).predict(X[:, :2]),
        lambda: model.step([1.0, 2.0, 3.0]),
        lambda: model.step(frame.astype(object).assign(b="many")),
        lambda: AdaptiveClassifier().fit(X, [None, *y[1:]]),
        lambda: AdaptiveClassifier().adapt(X),
        lambda: AdaptiveClassifier(refit=0).fit(X, y),
        lambda: model.adapt(X, y),
    ):
        with pytest.raises(accous.AccousError) as refused:
            call()
        found.append(str(refused.value))
    assert "\n".join(found) == MESSAGES.strip()


def cells(html):
    """The rows of our table, without tags."""

    class Reader(HTMLParser):
        texts: list[str]

        def handle_data(self, data):
            self.texts.append(data)

    table = html.partition("</table>")[0]
    reader = Reader()
    reader.texts = []
    reader.feed(table)
    return dict(zip(reader.texts[::2], reader.texts[1::2], strict=True))


def html_of(model):
    """What both interfaces of notebooks give."""
    by_method, by_bundle = model._repr_html_(), model._repr_mimebundle_()["text/html"]
    same = [re.sub(r"sk-container-id-\d+|sk-estimator-id-\d+", "id", each) for each in (by_method, by_bundle)]
    assert same[0] == same[1]
    return by_method


def test_a_fitted_model_shows_its_state_and_verdict():
    model = play(AdaptiveClassifier(adaptation="always").fit(*labelled_rows()), drifting_batches(12))
    shown = cells(html_of(model))
    trust, risk = model.trust_, model.risk_
    assert shown["Rounds"] == f"12 (48 rows), {model.n_refits_} refits"
    assert shown["Effective rows"] == f"{model.effective_sample_size_:,.0f} of 120 reference rows carry the weight"
    assert shown["Predictions"] == "by the adapted model"
    assert shown["Estimated error"].startswith(f"{risk.adapted:.1%} (")
    assert shown["Verdict"] == trust.verdict
    assert shown["Does the reference cover the inputs?"].endswith(trust.inputs.sentence)
    assert shown["Is the adapted model better than the fixed one?"].endswith(trust.adaptation.sentence)
    assert shown["Can you believe the estimated error?"].endswith(trust.predictions.sentence)
    assert "sk-top-container" in model._repr_html_()
    X, y = labelled_rows()
    assert cells(html_of(model.observe(X, y)))["Measured error"].startswith(f"{model.measured_.error:.1%} (")


def test_an_unfitted_model_is_shown_by_scikit_learn():
    model = AdaptiveClassifier(C=2.0)
    html = html_of(model)
    assert "accous-state" not in html
    assert "sk-top-container" in html


def test_the_display_leaves_no_trace():
    model = play(AdaptiveClassifier().fit(*labelled_rows()), drifting_batches(8))
    before = model.state_
    html_of(model)
    assert model.state_ is before
    assert model.history_["estimated_error"].isna().all()


@pytest.mark.parametrize("estimator", [LogisticRegression(), None], ids=["of the user", "own, many columns"])
def test_answers_that_take_long_are_shown_only_if_they_were_read(estimator, monkeypatch):
    if estimator is None:
        monkeypatch.setattr(notebook, "_MOST_VALUES", 100)
    model = play(AdaptiveClassifier(estimator).fit(*labelled_rows()), drifting_batches(8))
    with monkeypatch.context() as patch:
        patch.setattr(Snapshot, "trust", property(lambda _: pytest.fail("computed")))
        assert "print(model.trust_)" in cells(html_of(model))["Verdict"]
    verdict = model.trust_.verdict
    assert cells(html_of(model))["Verdict"] == verdict


def test_a_display_never_raises(monkeypatch):
    model = AdaptiveClassifier().fit(*labelled_rows())

    def fail(_):
        raise RuntimeError("told to fail")

    monkeypatch.setattr(Snapshot, "trust", property(fail))
    assert "sk-top-container" in html_of(model)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_odd_models_are_shown(n_classes):
    X, y = labelled_rows(n_rows=12, n_classes=n_classes)
    odd = pd.DataFrame(X, columns=["<b>", "&", "weight"])
    model = AdaptiveClassifier().fit(odd, y)
    assert cells(html_of(model))["Rounds"] == "0 (0 rows), 0 refits"
    for number in range(3):
        model.adapt(odd[:0] if number == 1 else odd + 1e9)
        assert "accous-state" in html_of(model)
    assert "<b>" not in html_of(model).partition("</table>")[0]


def test_scikit_learns_switch_turns_it_off():
    model = AdaptiveClassifier().fit(*labelled_rows())
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert list(model._repr_mimebundle_()) == ["text/plain"]
    assert repr(clone(model)) == repr(model)
