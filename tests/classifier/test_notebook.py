"""What a notebook shows of a model: state and verdict if it is fitted, and scikit-learn's diagram."""

import re
from html.parser import HTMLParser
from typing import Any

import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from accous import AdaptiveClassifier
from accous.model import estimators as notebook
from tests.classifiers import drifting_batches, labelled_rows, play


def cells(html: str) -> dict[str, str]:
    """The rows of our table, without tags."""

    class Reader(HTMLParser):
        texts: list[str]

        def handle_data(self, data: str) -> None:
            self.texts.append(data)

    table = html.partition("</table>")[0]
    reader = Reader()
    reader.texts = []
    reader.feed(table)
    return dict(zip(reader.texts[::2], reader.texts[1::2], strict=True))


def html_of(model: Any) -> str:
    """What both interfaces of notebooks give."""
    by_method, by_bundle = model._repr_html_(), model._repr_mimebundle_()["text/html"]
    same = [re.sub(r"sk-container-id-\d+|sk-estimator-id-\d+", "id", each) for each in (by_method, by_bundle)]
    assert same[0] == same[1]
    return by_method


def test_a_fitted_model_shows_its_state_and_verdict() -> None:
    model = play(AdaptiveClassifier(fallback="none").fit(*labelled_rows()), drifting_batches(12))
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


def test_late_labels_are_shown() -> None:
    X, y = labelled_rows()
    model = play(AdaptiveClassifier().fit(X, y), drifting_batches(5)).observe(X[:50], y[:50])
    assert cells(html_of(model))["Measured error"].startswith(f"{model.measured_.error:.1%} (")


def test_an_unfitted_model_is_shown_by_scikit_learn() -> None:
    model = AdaptiveClassifier(C=2.0)
    html = html_of(model)
    assert "accous-state" not in html
    assert "sk-top-container" in html


def test_the_display_leaves_no_trace() -> None:
    model = play(AdaptiveClassifier().fit(*labelled_rows()), drifting_batches(8))
    before = model.state_
    html_of(model)
    assert model.state_ is before
    assert not before.cache
    assert model.history_["estimated_error"].isna().all()


@pytest.mark.parametrize("estimator", [LogisticRegression(), None], ids=["of the user", "own, many columns"])
def test_answers_that_take_long_are_shown_only_if_they_were_read(
    estimator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if estimator is None:
        monkeypatch.setattr(notebook, "_MOST_VALUES", 100)
    model = play(AdaptiveClassifier(estimator).fit(*labelled_rows()), drifting_batches(8))
    with monkeypatch.context() as patch:
        patch.setattr(AdaptiveClassifier, "trust_", property(lambda _: pytest.fail("computed")))
        assert "print(model.trust_)" in cells(html_of(model))["Verdict"]
    verdict = model.trust_.verdict
    assert cells(html_of(model))["Verdict"] == verdict


def test_a_display_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    model = AdaptiveClassifier().fit(*labelled_rows())

    def fail(_: Any) -> Any:
        raise RuntimeError("told to fail")

    monkeypatch.setattr(AdaptiveClassifier, "trust_", property(fail))
    assert "sk-top-container" in html_of(model)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_odd_models_are_shown(n_classes: int) -> None:
    X, y = labelled_rows(n_rows=12, n_classes=n_classes)
    odd = pd.DataFrame(X, columns=["<b>", "&", "weight"])
    model = AdaptiveClassifier().fit(odd, y)
    assert cells(html_of(model))["Rounds"] == "0 (0 rows), 0 refits"
    for number in range(3):
        model.adapt(odd[:0] if number == 1 else odd + 1e9)
        assert "accous-state" in html_of(model)
    assert "<b>" not in html_of(model).partition("</table>")[0]


def test_scikit_learns_switch_turns_it_off() -> None:
    model = AdaptiveClassifier().fit(*labelled_rows())
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert list(model._repr_mimebundle_()) == ["text/plain"]
    assert repr(clone(model)) == repr(model)
