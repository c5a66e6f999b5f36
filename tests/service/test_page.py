"""The live page in a real browser: it shows the state first, follows the server, and survives its restart."""

import os
from pathlib import Path

import pytest

from tests.service.browsers import Page, browsing, needs_browser
from tests.service.servers import Server, serving
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, needs_browser]
# Set it to look at what the tests see.
SHOTS = os.environ.get("ACCOUS_SCREENSHOTS")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with browsing(tmp_path_factory.mktemp("browser")) as page:
        yield page


def shoot(page: Page, name: str) -> None:
    if SHOTS:
        page.shot(Path(SHOTS) / f"{name}.png")


def feed(server: Server, rows: list, start: int, stop: int, size: int = 2) -> None:
    for first in range(start, stop, size):
        server.step(rows[first : first + size])


def test_the_page_follows_drift_and_a_restart(forks, numbers, tmp_path, page):
    folder = numbers.copy(tmp_path / "model")
    with serving(forks, folder) as server:
        port = server.port
        page.open(server.address)
        page.wait_for_rounds(0)
        assert (page.text("#badge"), page.text("#reasons")) == ("no rows yet", "")
        feed(server, numbers.rows, 0, 60)
        page.wait_for_rounds(30)
        server.wait_for_rounds(30)
        page.wait_for(
            lambda: page.run("return document.querySelectorAll('#chart-performance svg').length") == 1, "a chart"
        )
        assert page.text("#link-text") == "Live"
        state = server.client.get("/v1/state").json()
        assert page.text("#badge") == state["state"]
        assert f"error {state['value']:.1%} expected" in page.text("#headline")
        assert page.text("#reasons") == "".join(each["text"] for each in state["reasons"])
        shoot(page, "light")
        far = [row | {"x0": row["x0"] + 4.0} for row in numbers.rows]
        feed(server, far, 0, 800, size=8)
        page.wait_for_rounds(130)
        page.wait_for(lambda: page.run("return document.querySelectorAll('#changes tbody tr').length") >= 1, "a change")
        assert "x0" in page.text("#changes")
        assert page.run("return document.querySelectorAll('#chart-performance line.mark').length") >= 1
        assert page.run("return document.querySelector('#moved tbody td').textContent") == "x0"
        page.wait_for(lambda: "rounds a second" in page.text("#tiles"), "the throughput")
        shoot(page, "drift")
        state = server.wait_for_rounds(130)
        reasons = "".join(each["text"] for each in state["reasons"])
        page.wait_for(lambda: page.text("#reasons") == reasons, "the reasons of now")
        server.kill()
        page.wait_for(lambda: "does not answer" in page.text("#link-text"), "the news that the server is away")
        assert "rounds a second" not in page.text("#tiles")
    with serving(forks, folder, "--port", port) as server:
        page.wait_for(lambda: page.text("#link-text") == "Live", "the connection")
        feed(server, far, 0, 4)
        page.wait_for_rounds(132)
        shoot(page, "after_restart")
        assert page.complaints() == []
        assert page.requested() == {"127.0.0.1"}
        page.open("about:blank")


@pytest.fixture(scope="module")
def fed(forks, numbers, tmp_path_factory):
    with serving(forks, numbers.copy(tmp_path_factory.mktemp("page") / "model")) as server:
        feed(server, numbers.rows, 0, 300, size=4)
        server.wait_for_rounds(75)  # charts may lag behind the number of rounds
        yield server


def test_it_is_legible_on_a_phone_and_in_the_dark(fed, page):
    page.set_width(360, 3000)
    page.open(fed.address)
    page.wait_for_rounds(75)
    assert page.run("return document.documentElement.scrollWidth") == 360
    shoot(page, "phone")
    light = page.run("return getComputedStyle(document.body).backgroundColor")
    page.set_dark()
    assert page.run("return getComputedStyle(document.body).backgroundColor") != light
    shoot(page, "phone_dark")
    page.set_width(1000)
    shoot(page, "dark")
    shown = "[...document.querySelectorAll('main *')].filter((e) => e.textContent.trim() && e.offsetParent)"
    assert page.run(f"return Math.min(...{shown}.map((e) => parseFloat(getComputedStyle(e).fontSize)))") >= 12


def test_it_speaks_to_keyboards_and_screen_readers(fed, page):
    from selenium.webdriver.common.keys import Keys

    page.open(fed.address)
    page.wait_for_rounds(75)
    assert page.run("return document.documentElement.lang") == "en"
    assert page.run("return document.querySelectorAll('h1').length") == 1
    assert page.run("return [...document.querySelectorAll('svg')].every((e) => e.getAttribute('aria-label'))")
    assert page.run("return document.querySelector('#link').getAttribute('role')") == "status"
    body = page.driver.find_element("tag name", "body")
    body.send_keys(Keys.TAB)
    assert page.run("return document.activeElement.className") == "skip"
    for _ in range(4):
        page.driver.switch_to.active_element.send_keys(Keys.TAB)
        if page.run("return document.activeElement.tagName") == "SUMMARY":
            break
    assert page.run("return document.activeElement.tagName") == "SUMMARY"
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    wait_for(lambda: page.run("return document.querySelectorAll('#numbers td').length") > 3, "numbers")
    assert "%" in page.text("#numbers")


def test_a_token_that_is_no_longer_known_leads_to_the_login(forks, numbers, tmp_path, page):
    """The server starts again with other tokens: the open page asks for one instead of trying for ever."""
    folder, tokens = numbers.copy(tmp_path / "model"), tmp_path / "tokens"
    tokens.write_text(f"read: {'a' * 30}\n")
    with serving(forks, folder, "--token-file", tokens) as server:
        port = server.port
        page.open(server.address)
        page.driver.find_element("id", "token").send_keys("a" * 30)
        page.driver.find_element("tag name", "button").click()
        page.wait_for(lambda: page.text("#link-text") == "Live", "the stream of events")
        server.kill()
    tokens.write_text(f"read: {'b' * 30}\n")
    with serving(forks, folder, "--token-file", tokens, "--port", port):
        page.wait_for(lambda: page.run("return !!document.querySelector('#token')"), "the login")
        shoot(page, "login")
        page.driver.find_element("id", "token").send_keys("b" * 30)
        page.driver.find_element("tag name", "button").click()
        page.wait_for(lambda: page.text("#link-text") == "Live", "the stream of events")
        page.open("about:blank")


def test_a_token_opens_it(forks, numbers, tmp_path, page):
    token = "t" * 30
    (tmp_path / "tokens").write_text(f"read: {token}\n")
    with serving(forks, numbers.copy(tmp_path / "model"), "--token-file", tmp_path / "tokens") as server:
        page.open(server.address)
        page.driver.find_element("id", "token").send_keys("wrong")
        page.driver.find_element("tag name", "button").click()
        page.wait_for(lambda: "is not known" in page.text(".wrong"), "the refusal")
        page.driver.find_element("id", "token").send_keys(token)
        page.driver.find_element("tag name", "button").click()
        page.wait_for_rounds(0)
        page.wait_for(lambda: page.text("#link-text") == "Live", "the stream of events")
        page.open("about:blank")


def test_the_report_and_the_interface_obey_their_policies(fed, page):
    page.complaints()
    page.open(f"{fed.address}/report")
    assert page.run("return document.querySelectorAll('svg').length") >= 3
    page.open(f"{fed.address}/docs")
    shoot(page, "interface")
    assert page.text("h1") == "accous: model"
    assert page.complaints() == []
