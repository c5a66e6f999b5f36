"""The page where readers move the drift, in a real browser, from a file and offline."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

pytestmark = [pytest.mark.slow]


@pytest.fixture
def playground(browser, site):
    """The page as it is when it has just been opened."""
    browser.get((site / "explanation" / "playground.html").as_uri())
    return browser


def move(browser, name, value):
    script = """const input = document.querySelector(`[name="${arguments[0]}"]`);
        input.value = arguments[1]; input.dispatchEvent(new Event("input", {bubbles: true}));"""
    browser.execute_script(script, name, str(value))


def shown(browser, name):
    return browser.find_element("css selector", f'[data-shows="{name}"]').text


def percent(browser, name):
    return float(shown(browser, name).removesuffix("%"))


def adapted_line(browser):
    line = browser.find_element("css selector", "line.adapted")
    return [float(line.get_attribute(name)) for name in ("y1", "y2")]


def test_it_starts_by_itself_and_without_errors(playground):
    assert playground.find_element("css selector", ".playground").get_attribute("data-ready") == "yes"
    assert [entry for entry in playground.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert len(playground.find_elements("css selector", "svg .row")) == 300
    assert len(playground.find_elements("css selector", "svg .batch")) == 100


def test_weights_and_line_follow_the_drift(playground):
    move(playground, "share", 100)
    right = adapted_line(playground)
    assert percent(playground, "adapted") < percent(playground, "fixed") - 10.0
    move(playground, "share", 0)
    left = adapted_line(playground)
    assert (right[0] - right[1]) * (left[0] - left[1]) < 0  # they lean to different sides
    assert shown(playground, "verdict") == "it helps"


def test_it_says_so_where_nothing_can_help(playground):
    move(playground, "reference", 0)
    move(playground, "share", 100)
    assert shown(playground, "verdict") == "no overlap"
    assert int(shown(playground, "effective").split()[0]) < 10


def test_without_drift_there_is_nothing_to_gain(playground):
    move(playground, "share", 20)
    assert shown(playground, "verdict") == "nothing to gain"


def test_every_slider_has_a_name_and_says_its_value(playground):
    sliders = playground.find_elements("css selector", '.playground input[type="range"]')
    assert len(sliders) == 4
    assert len({slider.accessible_name for slider in sliders}) == 4
    move(playground, "share", 70)
    slider = playground.find_element("css selector", '[name="share"]')
    assert slider.get_attribute("aria-valuetext") == shown(playground, "share") == "70 %"


def test_the_keyboard_moves_the_drift(playground):
    from selenium.webdriver.common.keys import Keys

    before = shown(playground, "share")
    playground.find_element("css selector", '[name="share"]').send_keys(Keys.ARROW_LEFT * 5)
    assert shown(playground, "share") != before


def test_its_regression_is_that_of_scikit_learn(playground):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] + 0.5 * rng.normal(size=80) > 0
    weights = rng.uniform(0.1, 3.0, size=80)
    script = "return playgroundNumbers.fitLogistic(arguments[0], arguments[1], arguments[2], 1)"
    rows = np.column_stack([np.ones(80), X]).tolist()
    found = playground.execute_script(script, rows, y.tolist(), weights.tolist())
    expected = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(found, [*expected.intercept_, *expected.coef_[0]], rtol=1e-4)


def test_its_ratio_is_close_to_the_truth_for_two_gaussians(playground):
    rng = np.random.default_rng(1)
    reference, batch = rng.normal(size=(2000, 2)), rng.normal(loc=(1.0, 0.0), size=(2000, 2))
    script = """const ratio = playgroundNumbers.estimateRatio(arguments[0], arguments[1], 0.01, 100);
        return arguments[2].map(ratio)"""
    points = [[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [2.0, 0.5]]
    found = playground.execute_script(script, reference.tolist(), batch.tolist(), points)
    np.testing.assert_allclose(found, [np.exp(x - 0.5) for x, _ in points], rtol=0.35)
