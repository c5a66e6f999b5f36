"""The report in a real browser: every chart is drawn, in light, in dark and on paper, and nothing is fetched."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from accous.report.page import render_page
from tests.report.test_report import follow

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="needs chromium: install it, for example by apt install chromium"),
]
DARK = "--blink-settings=preferredColorScheme=0"


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_page(follow(1.0)))
    return path


def browse(page: Path, *options: str) -> str:
    common = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--hide-scrollbars"]
    # No name is resolved: whatever the page tried to fetch would fail.
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"
    command = [BROWSER, *common, offline, f"--user-data-dir={page.parent / 'profile'}", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


def pixels(path: Path) -> np.ndarray:
    from matplotlib.image import imread

    return imread(path)[..., :3]


def test_every_chart_is_drawn(page):
    drawn = browse(page, "--dump-dom")
    assert drawn.count("<svg") == 3
    assert drawn.count('class="bars"') == 2
    assert drawn.count('class="line adapted"') == 2
    assert drawn.count('class="cell"') > 40


def test_nothing_is_wider_than_a_small_screen(page, tmp_path):
    """A page that writes into its title how wide it is, inside a frame as wide as a small telephone."""
    measuring = page.read_text().replace(
        "</body>", "<script>document.title = document.documentElement.scrollWidth;</script></body>"
    )
    (tmp_path / "narrow.html").write_text(measuring)
    frame = '<iframe id="f" src="narrow.html" width="360" height="4000" style="border:0"></iframe>'
    (tmp_path / "frame.html").write_text(
        f"<body>{frame}<script>f.onload = () => document.body.dataset.wide = f.contentDocument.title</script>"
    )
    drawn = browse(tmp_path / "frame.html", "--dump-dom", "--allow-file-access-from-files")
    assert re.search(r'data-wide="(\d+)"', drawn)[1] == "360"


@pytest.mark.parametrize(("options", "is_dark"), [([], False), ([DARK], True)])
def test_light_and_dark_pages_differ_in_brightness_and_are_not_blank(page, options, is_dark, tmp_path):
    browse(page, "--window-size=1000,3000", f"--screenshot={tmp_path / 'shot.png'}", *options)
    picture = pixels(tmp_path / "shot.png")
    assert (picture.mean() < 0.3) == is_dark
    assert picture.std() > 0.03
    # Blue of the charts, all over the page.
    is_blue = (picture[..., 2] > picture[..., 0] + 0.25).any(axis=1)
    assert is_blue.mean() > 0.2


def test_it_prints(page, tmp_path):
    browse(page, "--no-pdf-header-footer", f"--print-to-pdf={tmp_path / 'report.pdf'}", DARK)
    content = (tmp_path / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 12
