"""The site, built once for each process that runs tests of it, and a browser that shows it."""

import shutil
from pathlib import Path

import pytest

from tests.forks import ForkServer
from tests.site.building import build_site

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, forks: ForkServer) -> Path:
    pytest.importorskip("sphinx", reason="needs sphinx: pip install 'accous[docs]'")
    return build_site(tmp_path_factory.mktemp("docs"), forks)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A browser for pages from files, without a network."""
    pytest.importorskip("selenium", reason="needs selenium: pip install selenium")
    if BROWSER is None or DRIVER is None:
        pytest.skip("needs chromium and its driver: install both, for example by apt install chromium chromium-driver")
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = BROWSER
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE localhost , EXCLUDE 127.0.0.1")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = Chrome(options=options, service=ChromeService(DRIVER))
    try:
        yield browser
    finally:
        browser.quit()
