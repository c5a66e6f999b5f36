"""Pages on a telephone and on a wide screen, light and dark, in a real browser."""

import pytest

pytestmark = [pytest.mark.slow]
PAGES = ("index", "start", "gallery/index", "trust", "cli", "service", "results", "reference/generated/accous.backtest")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_pages_fit_and_every_picture_is_there(page, theme, site, browser):
    for width in (390, 1280):
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == 390}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        browser.get((site / f"{page}.html").as_uri())
        browser.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.execute_script("return [...document.images].every(each => !each.complete || each.naturalWidth)")
        ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert ground.startswith("rgb(255") == (theme == "light"), ground
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
