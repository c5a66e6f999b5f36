"""The report in a real browser: every chart is drawn, in light, in dark and on paper, and nothing is fetched."""

import re
import shutil
import subprocess

import pytest

from accous.report.page import render_page
from tests.report.subjects import follow

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="needs chromium: install it, for example by apt install chromium"),
]
DARK = "--blink-settings=preferredColorScheme=0"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_page(follow(1.0)))
    return path


def browse(page, *options):
    common = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--hide-scrollbars"]
    # No name is resolved: whatever the page tried to fetch would fail.
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"
    command = [BROWSER, *common, offline, f"--user-data-dir={page.parent / 'profile'}", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


def pixels(path):
    from matplotlib.image import imread

    return imread(path)[..., :3]


def test_every_chart_is_drawn(page):
    drawn = browse(page, "--dump-dom")
    assert drawn.count("<svg") == 4  # three charts, and the time line of the regimes
    assert drawn.count('class="bars"') == 2
    assert drawn.count('class="line adapted"') == 2
    assert drawn.count('class="cell"') > 40


def test_a_line_has_gaps_where_the_estimate_is_not_known(tmp_path):
    """The estimate is known in the first rounds alone: one piece, which ends before the axis does."""
    (tmp_path / "report.html").write_text(render_page(follow(3.0, has_labels=False)))
    drawn = browse(tmp_path / "report.html", "--dump-dom")
    paths = re.findall(r'class="line adapted" d="([^"]*)"', drawn)
    shortest = min(paths, key=len)
    assert shortest.count("M") == 1
    assert float(shortest.rpartition("L")[2].partition(",")[0]) < 0.5 * float(
        re.search(r'<svg width="(\d+)"', drawn)[1]
    )


def on_a_small_screen(page, folder, script):
    """What a script returns in a page inside a frame as wide as a small telephone."""
    (folder / "narrow.html").write_text(page.replace("</body>", f"<script>document.title = {script}</script></body>"))
    frame = '<iframe id="f" src="narrow.html" width="360" height="4000" style="border:0"></iframe>'
    (folder / "frame.html").write_text(
        f"<body>{frame}<script>f.onload = () => document.body.dataset.found = f.contentDocument.title</script>"
    )
    drawn = browse(folder / "frame.html", "--dump-dom", "--allow-file-access-from-files")
    return re.search(r'data-found="([^"]+)"', drawn)[1]


def test_nothing_is_wider_than_a_small_screen(page, tmp_path):
    assert on_a_small_screen(page.read_text(), tmp_path, "document.documentElement.scrollWidth") == "360"


# How many labels there are below the charts, and how many of them touch.
COUNT_LABELS = """(() => {
    let touching = 0, labels = 0;
    for (const svg of document.querySelectorAll("svg")) {
      const isDate = (text) => /[-:]|^(19|20)../.test(text.textContent);
      const texts = [...svg.querySelectorAll('text:not(.title)')].filter(isDate);
      const boxes = texts.map((text) => text.getBoundingClientRect());
      const frame = svg.getBoundingClientRect();
      labels += boxes.length;
      const touches = (box, k) => box.right > frame.right || (k && box.left < boxes[k - 1].right + 4);
      touching += boxes.filter(touches).length;
    }
    return `${labels}/${touching}`;
})()"""


@pytest.mark.parametrize("step", [30.0, 7_200.0, 86_400.0, 86_400.0 * 9, 86_400.0 * 90])
def test_no_two_labels_of_an_axis_touch_on_a_small_screen(step, tmp_path):
    page = render_page(follow(1.0, times=[1_358_726_400.0 + step * number for number in range(40)]))
    n_labels, n_touching = map(int, on_a_small_screen(page, tmp_path, COUNT_LABELS).split("/"))
    assert n_labels >= 3
    assert n_touching == 0


@pytest.mark.parametrize(("options", "is_dark"), [([], False), ([DARK], True)])
def test_light_and_dark_pages_differ_in_brightness_and_are_not_blank(page, options, is_dark, tmp_path):
    browse(page, "--window-size=1000,3000", f"--screenshot={tmp_path / 'shot.png'}", *options)
    picture = pixels(tmp_path / "shot.png")
    assert (picture.mean() < 0.3) == is_dark
    assert picture.std() > 0.03
    # Blue of the charts, in most strips of 250 pixels below the verdict and the answers.
    is_blue = (picture[..., 2] > picture[..., 0] + 0.25).any(axis=1)
    assert is_blue[1000:].reshape(-1, 250).any(axis=1).mean() > 0.6


def test_it_prints(page, tmp_path):
    browse(page, "--no-pdf-header-footer", f"--print-to-pdf={tmp_path / 'report.pdf'}", DARK)
    content = (tmp_path / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 12
