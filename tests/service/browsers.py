"""A real browser without a screen, for the tests of the page."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE, wait_for

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    BROWSER is None or DRIVER is None,
    reason="needs chromium: install it, for example by apt install chromium chromium-driver",
)
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars"),
    *("--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
)


class Page:
    """A page in a browser."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, address: str) -> None:
        self.driver.get(address)

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def text(self, selector: str) -> str:
        return str(self.run(f"return (document.querySelector({json.dumps(selector)}) || {{}}).textContent || ''"))

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        wait_for(condition, what)

    def wait_for_rounds(self, n_rounds: int) -> None:
        self.wait_for(lambda: self.text("#facts").startswith(f"{n_rounds:,} rounds"), f"{n_rounds} rounds on the page")

    def set_width(self, width: int, height: int = 2000) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def set_dark(self) -> None:
        dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)

    def complaints(self) -> list[str]:
        """What the browser has complained about; that a server is away is no complaint."""
        lines = [entry["message"] for entry in self.driver.get_log("browser")]
        return [line for line in lines if "ERR_CONNECTION" not in line and "ERR_INCOMPLETE" not in line]

    def requested(self) -> set[str]:
        """The hosts that anything was asked of."""
        found = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            address = message["params"].get("request", {}).get("url", "")
            # Those of the browser's own pages begin with chrome: or data:.
            if message["method"] == "Network.requestWillBeSent" and address.startswith("http"):
                found.add(address.split("/")[2].partition(":")[0])
        return found

    def shot(self, path: Path) -> None:
        self.driver.save_screenshot(str(path))


@contextmanager
def browsing(folder: Path) -> Iterator[Page]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for option in (*OPTIONS, "--window-size=1000,2400", f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        driver.set_page_load_timeout(PATIENCE)
        yield Page(driver)
    finally:
        driver.quit()
