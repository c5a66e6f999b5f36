"""What people read: printed readings as a whole, messages, and what a notebook shows."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import accous
from accous import AdaptiveClassifier
from accous.diagnostics.status import text_of
from accous.model import snapshot as notebook
from accous.model.snapshot import Snapshot
from tests.classifiers import drifting_batches, labelled_rows, run_rounds


def rows(n_rows, seed, by=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    return X + by, (X[:, 0] + 0.5 * rng.normal(size=n_rows) > 0.0).astype(int)


MESSAGES = """
X has no column 'c', which the reference has: add it, or correct its name. X has 'C', which the reference has not.
X has 2 features, but AdaptiveClassifier is expecting 3 features as input: pass the columns of the reference, in the same order.
X must have rows and columns, got one dimension. Reshape your data: a single row is X.reshape(1, -1) or frame.iloc[[0]], and [row] of a list.
Column 'b' cannot be read as numbers in row 0 (could not convert string to float: 'many'). Encode or drop it, or use a transformer that encodes it in both parts: AdaptiveClassifier(make_pipeline(transformer, classifier), OnlineDensityRatio(feature_map=transformer)).
y holds None in row 0: give every row a label, or leave rows without one out.
This AdaptiveClassifier is not fitted yet: call fit first.
refit must be 'auto', 'always' or a positive integer, got 0.
adapt takes no labels: pass those that arrive late to observe(X, y).
A LogisticRegression cannot be saved: use AdaptiveClassifier, AdaptiveRegressor, a ratio estimator, or a TableModel.
FOLDER holds no saved model (manifest.json is missing): give the folder that a model was saved to.
loss must be one of 'logistic', 'least_squares', 'kl', got 'huber'.
estimator must be a regressor, such as Ridge(), got LogisticRegression.
The state is not one that accous wrote (4 bytes): pass the bytes that step returned, or None to start again.
predict_set needs more rows of every class in the reference, because it fits without some rows.
"""  # noqa: E501


def test_messages(tmp_path):
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
        lambda: accous.save(LogisticRegression(), tmp_path),
        lambda: accous.load(tmp_path),
        lambda: accous.OnlineDensityRatio(loss="huber").fit(X),
        lambda: accous.AdaptiveRegressor(LogisticRegression()).fit(X, X[:, 0]),
        lambda: accous.keyed.KeyedAdapter(AdaptiveClassifier().fit(X, y)).step(b"torn", X),
        lambda: AdaptiveClassifier().fit(X, np.arange(120) < 1).predict_set(X, 0.1),
    ):
        with pytest.raises(accous.AccousError) as refused:
            call()
        found.append(str(refused.value).replace(str(tmp_path), "FOLDER"))
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


def test_a_fitted_model_shows_its_state():
    model = run_rounds(AdaptiveClassifier(adaptation="always").fit(*labelled_rows()), drifting_batches(12))
    shown = cells(html_of(model))
    status, now = model.status_, model.performance()
    assert shown["Rounds"] == f"12 (48 rows), {model.n_refits_} refits"
    assert shown["Effective rows"].startswith(f"{model.effective_sample_size_:,.0f} of 120 ")
    assert shown["State"] == status.state
    assert shown["error"] == f"{now.value:.3g} ({now.low:.3g} to {now.high:.3g}, expected; at fit {now.at_fit:.3g})"
    assert shown["Advice"] == text_of(status.advice)
    assert "sk-top-container" in model._repr_html_()


def test_an_unfitted_model_is_shown_by_scikit_learn():
    model = AdaptiveClassifier(C=2.0)
    html = html_of(model)
    assert "accous-state" not in html
    assert "sk-top-container" in html


def test_the_display_leaves_no_trace():
    model = run_rounds(AdaptiveClassifier().fit(*labelled_rows()), drifting_batches(8))
    before = model.state_
    html_of(model)
    assert model.state_ is before
    assert model.history_["value"].isna().all()


@pytest.mark.parametrize("estimator", [LogisticRegression(), None], ids=["of the user", "own, many columns"])
def test_answers_that_take_long_are_shown_only_if_they_were_read(estimator, monkeypatch):
    if estimator is None:
        monkeypatch.setattr(notebook, "_MOST_VALUES", 100)
    model = run_rounds(AdaptiveClassifier(estimator).fit(*labelled_rows()), drifting_batches(8))
    with monkeypatch.context() as patch:
        patch.setattr(Snapshot, "status", property(lambda _: pytest.fail("computed")))
        assert "model.status_" in cells(html_of(model))["State"]
    state = model.status_.state
    assert cells(html_of(model))["State"] == state


def test_a_display_never_raises(monkeypatch):
    model = AdaptiveClassifier().fit(*labelled_rows())

    def fail(_):
        raise RuntimeError("told to fail")

    monkeypatch.setattr(Snapshot, "status", property(fail))
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
