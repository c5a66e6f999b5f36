"""Who may do what, and what never happens: no internals in an answer, no other site's requests, no files."""

import json
import socket

import httpx
import pytest

from tests.docs_pages import DOCS
from tests.service.servers import JSON, serving
from tests.waiting import PATIENCE

READ, WRITE = "r" * 40, "w" * 40


@pytest.fixture(scope="module")
def guarded(forks, numbers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "tokens").write_text(f"# who\nread: {READ}\n\nwrite: {WRITE}\n")
    with serving(forks, numbers.copy(folder / "model"), "--token-file", folder / "tokens") as server:
        yield server


@pytest.fixture(scope="module")
def unguarded(forks, numbers, tmp_path_factory):
    with serving(forks, numbers.copy(tmp_path_factory.mktemp("open") / "model")) as server:
        yield server


@pytest.fixture(autouse=True)
def _no_cookies(guarded):
    """A test that logs in leaves its cookie in the client that all of them share."""
    guarded.client.cookies.clear()


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_without_a_token_nothing_but_health_is_answered(guarded, numbers):
    n_rounds = guarded.client.get("/readyz").json()["rounds"]
    for path in ("/v1/state", "/v1/history", "/v1/events", "/metrics", "/report", "/page/view", "/docs"):
        answer = guarded.client.get(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "no_token"), path
        assert answer.headers["www-authenticate"].startswith("Bearer")
    for path in ("/v1/predict", "/v1/step", "/v1/adapt", "/v1/labels", "/invocations", "/v2/models/model/infer"):
        assert guarded.post(path, {"rows": numbers.rows[:1]}).status_code == 401, path
    for path in ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"):
        assert guarded.client.get(path).status_code == 200, path
    assert guarded.client.get("/readyz").json()["rounds"] == n_rounds


def test_tokens_for_reading_and_writing_are_apart(guarded, numbers):
    rows = {"rows": numbers.rows[:1]}
    assert guarded.client.get("/v1/state", headers=bearer(READ)).status_code == 200
    assert guarded.post("/v1/predict", rows, **bearer(READ)).status_code == 200
    n_rounds = guarded.client.get("/readyz").json()["rounds"]
    refused = guarded.post("/v1/step", rows, **bearer(READ))
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "read_only")
    assert guarded.client.get("/readyz").json()["rounds"] == n_rounds
    assert guarded.post("/v1/adapt", rows, **bearer(WRITE)).status_code == 200
    assert guarded.client.get("/v1/state", headers=bearer(WRITE)).status_code == 200


@pytest.mark.parametrize("wrong", [READ[:-1], READ + "r", READ.upper(), "x" * 40, "ü" * 40, "r" * 100_00])
def test_a_wrong_token_is_refused(guarded, wrong):
    headers = {"authorization": f"Bearer {wrong}".encode()}
    answer = guarded.client.get("/v1/state", headers=headers)
    assert answer.status_code == 401
    assert READ not in answer.text


def test_the_page_is_opened_by_a_cookie_that_only_reads(guarded, numbers):
    with httpx.Client(base_url=guarded.address, timeout=PATIENCE, trust_env=False) as browser:
        assert 'action="/login"' in browser.get("/").text
        wrong = browser.post("/login", data={"token": "nothing of the kind"})
        assert (wrong.status_code, "is not known" in wrong.text) == (401, True)
        assert browser.get("/page/view").status_code == 401
        welcome = browser.post("/login", data={"token": READ})
        assert (welcome.status_code, welcome.headers["location"]) == (303, "/")
        cookie = welcome.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert READ not in cookie
        assert 'id="status"' in browser.get("/").text
        assert browser.get("/page/view").json()["name"] == "model"
        with browser.stream("GET", "/v1/events") as events:
            assert events.status_code == 200
        # A cookie that a browser adds by itself must not be enough to send something.
        for path in ("/v1/predict", "/v1/step"):
            answer = browser.post(path, content=json.dumps({"rows": numbers.rows[:1]}), headers=JSON)
            assert answer.status_code == 401
        secure = browser.post("/login", data={"token": READ}, headers={"x-forwarded-proto": "https"})
        assert "Secure" in secure.headers["set-cookie"]
        assert browser.post("/logout").status_code == 303
        assert browser.get("/page/view").status_code == 401


def test_another_address_than_the_loopback_needs_tokens(forks, model):
    done = forks.run("accous", "serve", model, "--host", "0.0.0.0", "--port", "0", check=2)
    assert "--token-file" in done.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "holds no token"),
        ("read: short", "at least 16"),
        ("admin: " + "x" * 40, "line 1: "),
        ("read: " + "x" * 20 + " y", "at least 16"),
    ],
)
def test_a_token_file_that_cannot_be_used_is_refused(forks, model, tmp_path, text, reason):
    (tmp_path / "tokens").write_text(text)
    done = forks.run("accous", "serve", model, "--token-file", tmp_path / "tokens", "--port", "0", check=2)
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8321", "127.0.0.1.evil.example", "", "localhost.evil"])
def test_without_tokens_other_names_of_this_machine_are_refused(unguarded, host):
    """A page on the web can make its own name lead to 127.0.0.1; the browser then says that name."""
    answer = unguarded.client.get("/v1/state", headers={"host": host})
    assert (answer.status_code, answer.json()["error"]["code"]) == (421, "wrong_host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:8321", "[::1]"])
def test_names_of_the_loopback_are_welcome(unguarded, host):
    assert unguarded.client.get("/v1/state", headers={"host": host}).status_code == 200


def test_pages_of_other_sites_send_nothing(unguarded, numbers):
    before = unguarded.client.get("/readyz").json()["rounds"]
    content = json.dumps({"rows": numbers.rows[:1]})
    for headers in ({"origin": "https://evil.example"}, {"origin": "null"}):
        answer = unguarded.client.post("/v1/step", content=content, headers=JSON | headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "other_origin")
    # What a page may send to other sites without asking first: none of these kinds is taken.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        answer = unguarded.client.post("/v1/step", content=content, headers={"content-type": kind})
        assert answer.status_code == 415, kind
    assert unguarded.client.get("/readyz").json()["rounds"] == before
    own = {"origin": unguarded.address}
    assert unguarded.client.post("/v1/predict", content=content, headers=JSON | own).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/assets/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/assets/%2fetc%2fpasswd",
        "//etc/passwd",
    ],
)
def test_no_path_reaches_the_file_system(unguarded, path):
    with socket.create_connection(("127.0.0.1", unguarded.port), timeout=PATIENCE) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = raw.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"root:" not in answer


def test_pages_have_a_policy_and_load_nothing_from_elsewhere(unguarded):
    for path in ("/", "/report", "/docs"):
        answer = unguarded.client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert "//" not in answer.text.replace("http://www.w3.org/2000/svg", "").partition("<body")[0].replace(
            "<!--", ""
        )
        assert answer.headers["x-content-type-options"] == "nosniff"
    asset = unguarded.client.get("/assets/live.js")
    assert asset.headers["content-type"].startswith("text/javascript")


def test_head_is_get_without_a_body(unguarded):
    answer = unguarded.client.head("/healthz")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


def test_behind_a_proxy_on_a_port_of_its_own_the_login_works(guarded):
    """The proxy must pass the port on, as the guide says: the browser names it as the page's origin."""
    form = {"content-type": "application/x-www-form-urlencoded", "origin": "https://models.example:8443"}
    for host, status in (("models.example:8443", 303), ("models.example", 403)):
        answer = guarded.client.post("/login", content=f"token={READ}", headers=form | {"host": host})
        assert answer.status_code == status
    assert "proxy_set_header Host $http_host;" in (DOCS / "service.md").read_text()
