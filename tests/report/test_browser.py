"""The report in a real browser: every chart is drawn, in light, in dark and on paper, and nothing is fetched."""

import re
import shutil
import subprocess

import numpy as np
import polars as pl
import pytest

import accous
from accous.report.figures import report_source
from accous.report.page import render_page
from tests.cli.tables import fit_model
from tests.report.subjects import follow

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="needs chromium: install it, for example by apt install chromium"),
]
DARK = "--blink-settings=preferredColorScheme=0"
SCREEN = 900


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_page(follow(1.0, n_scored=10)))
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
    n_moved = drawn.count('class="spread-name"')
    assert n_moved >= 1
    assert drawn.count("<svg") == 1 + n_moved
    assert drawn.count('class="line adapted"') == 1 + n_moved
    assert drawn.count('class="whisker measured"') == drawn.count('class="dot measured"') >= 10
    assert drawn.count('class="level ') == 2


def test_the_line_has_a_gap_where_labels_spoke(tmp_path):
    subject = follow(0.0, n_rounds=220, labels=range(10, 16), metric="roc_auc")
    (tmp_path / "report.html").write_text(render_page(subject))
    drawn = browse(tmp_path / "report.html", "--dump-dom")
    path = re.search(r'class="line adapted" d="([^"]*)"', drawn)[1]
    assert path.count("M") == 2
    assert drawn.count('class="whisker measured"') >= 1


def within(page, folder, script, width):
    """What a script returns in a page inside a frame of a width."""
    (folder / "narrow.html").write_text(page.replace("</body>", f"<script>document.title = {script}</script></body>"))
    frame = f'<iframe id="f" src="narrow.html" width="{width}" height="4000" style="border:0"></iframe>'
    (folder / "frame.html").write_text(
        f"<body>{frame}<script>f.onload = () => document.body.dataset.found = f.contentDocument.title</script>"
    )
    options = ("--dump-dom", "--allow-file-access-from-files", "--window-size=1400,4200")
    return re.search(r'data-found="([^"]+)"', browse(folder / "frame.html", *options))[1]


def test_nothing_is_wider_than_a_small_screen(page, tmp_path):
    assert within(page.read_text(), tmp_path, "document.documentElement.scrollWidth", 360) == "360"


@pytest.mark.parametrize("width", [1280, 390])
def test_300_columns_take_four_screens_at_most(width, tmp_path):
    random = np.random.default_rng(0)
    frame = pl.DataFrame({f"a column with a name {number}": random.normal(size=600) for number in range(299)})
    frame = frame.with_columns(kind=pl.Series(random.choice(list("abcdefgh"), 600)))
    label = pl.Series("label", np.where(frame[:, 0] + random.normal(size=600) > 0, "yes", "no"))
    model = accous.load(fit_model(tmp_path, frame.with_columns(label), "--no-ordered"))
    for _ in range(20):
        model.step(frame.sample(20, seed=1).with_columns(pl.col("^a column.*$") + 0.5, kind=pl.lit("new")))
    page = render_page(report_source(model.snapshot(), "model", by="kind"))
    assert int(within(page, tmp_path, "document.querySelector('main').scrollHeight", width)) <= 4 * SCREEN


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
    n_labels, n_touching = map(int, within(page, tmp_path, COUNT_LABELS, 360).split("/"))
    assert n_labels >= 2
    assert n_touching == 0


@pytest.mark.parametrize(("options", "is_dark"), [([], False), ([DARK], True)])
def test_light_and_dark_pages_differ_in_brightness_and_are_not_blank(page, options, is_dark, tmp_path):
    browse(page, "--window-size=1000,1600", f"--screenshot={tmp_path / 'shot.png'}", *options)
    picture = pixels(tmp_path / "shot.png")
    assert (picture.mean() < 0.3) == is_dark
    assert picture.std() > 0.03
    # Blue of the charts.
    assert (picture[..., 2] > picture[..., 0] + 0.25).any(axis=1).sum() > 100


def test_it_prints(page, tmp_path):
    browse(page, "--no-pdf-header-footer", f"--print-to-pdf={tmp_path / 'report.pdf'}", DARK)
    content = (tmp_path / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 4
