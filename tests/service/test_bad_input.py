"""Whatever a client sends, it gets a clear 4xx in one shape: never a 500, never a traceback, never silence."""

import contextlib
import json
import socket
import struct
import threading

import httpx
import polars as pl
import pytest

from tests.budgets import rest_slow
from tests.service.servers import JSON, serving
from tests.waiting import PATIENCE, wait_for


@pytest.fixture(scope="module")
def server(forks, mixed, tmp_path_factory):
    folder = mixed.copy(tmp_path_factory.mktemp("bad") / "model")
    with serving(forks, folder, "--max-body", "0.5", "--max-rows", "200") as running:
        yield running
        assert running.client.get("/readyz").json()["rounds"] == 0, "something bad was learned from"
    assert "Traceback" not in running.stderr


def error_of(answer: httpx.Response) -> str:
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert "Traceback" not in answer.text
    assert "accous/" not in answer.text
    if answer.request.url.path.startswith("/v2/"):  # the shape of the Open Inference Protocol
        assert error.endswith(".")
        return "malformed_json" if answer.status_code == 400 else "invalid"
    assert error["message"].endswith(".")
    return error["code"]


MALFORMED = {
    "empty": b"",
    "half": b'{"rows": [{"x0": 1',
    "text": b"hello",
    "nan": b'{"rows": [{"x0": NaN}]}',
    "infinity": b'{"rows": [{"x0": Infinity}]}',
    "latin": '{"rows": [{"colour": "grün"}]}'.encode("latin-1"),
    "deep": b'{"rows": ' + b"[" * 5_000,
    "nul": b"\x00" * 100,
    "surrogate": b'{"rows": [{"colour": "\\ud800"}]}',
}
WRONG_FORM = {
    "list": b"[]",
    "number": b"3",
    "no rows": b"{}",
    "rows not a list": b'{"rows": {"x0": 1}}',
    "row not an object": b'{"rows": [1]}',
    "nested": b'{"rows": [{"x0": {"a": 1}}]}',
    "list of text": b'{"rows": [{"x0": ["a"]}]}',
    "unknown field": b'{"rows": [], "rowz": []}',
    "unknown part": b'{"rows": [], "include": ["everything"]}',
    "alpha": b'{"rows": [], "alpha": 0}',
    "too large": b'{"rows": [{"x0": 1e999}]}',
    "alpha text": b'{"rows": [], "alpha": "x"}',
}


@pytest.mark.parametrize("path", ["/v1/predict", "/v1/step", "/v1/labels", "/v2/models/model/infer", "/invocations"])
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_json(server, path, name):
    code = error_of(server.client.post(path, content=MALFORMED[name], headers=JSON))
    assert code in ("malformed_json", "invalid")


@pytest.mark.parametrize("path", ["/v1/predict", "/v1/step"])
@pytest.mark.parametrize("name", WRONG_FORM)
def test_json_of_another_form(server, path, name):
    assert error_of(server.client.post(path, content=WRONG_FORM[name], headers=JSON)) == "invalid"


def changed(row: dict, **values: object) -> dict:
    return {name: value for name, value in (row | values).items() if value is not ...}


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"x0": ...}, "wrong_columns", "column 'x0'"),
        ({"x0": "high"}, "bad_value", "column 'x0': 'high'"),
        ({"x0": 10**400}, "bad_value", "column 'x0'"),
        ({"x0": [1.0]}, "wrong_columns", "'x0'"),
        ({"day": "soon"}, "bad_value", "column 'day': 'soon'"),
        ({"day": 7}, "bad_value", "column 'day'"),
    ],
)
def test_rows_that_the_model_cannot_use(server, mixed, change, code, words):
    rows = (
        [mixed.rows[0], changed(mixed.rows[1], **change)] if code == "bad_value" else [changed(mixed.rows[1], **change)]
    )
    content = json.dumps({"rows": rows})
    for path in ("/v1/predict", "/v1/adapt"):
        answer = server.client.post(path, content=content, headers=JSON)
        assert error_of(answer) == code
        assert words in answer.json()["error"]["message"]
        if code == "bad_value":
            assert (answer.json()["error"]["row"], answer.json()["error"]["column"]) == (1, next(iter(change)))


def test_strange_but_usable_values_are_used(server, mixed):
    rows = [
        changed(mixed.rows[0], **each) for each in ({"x0": None}, {"colour": "<b>new</b>"}, {"colour": 7}, {"x0": True})
    ]
    assert len(server.post("/v1/predict", {"rows": rows}).json()["predictions"]) == 4


@pytest.mark.parametrize(
    ("kind", "content", "code"),
    [
        ("text/csv", b"", "malformed_csv"),
        ("text/csv", b"\xff\xfe\x00", "malformed_csv"),
        ("text/csv", b"x0,x1\n1,2,3\n", "malformed_csv"),
        ("text/csv", b"a,b\n1,2\n", "wrong_columns"),
        ("application/vnd.apache.arrow.stream", b"", "malformed_arrow"),
        ("application/vnd.apache.arrow.stream", b"\xff\xff\xff\xff\x10\x00\x00\x00abcdefghijklmnop", "malformed_arrow"),
        ("application/vnd.apache.arrow.stream", b"ARROW1\x00\x00garbageARROW1", "malformed_arrow"),
        ("application/xml", b"<rows/>", "unsupported_content_type"),
        ("", b"{}", "unsupported_content_type"),
    ],
)
def test_tables_that_are_none(server, kind, content, code):
    assert error_of(server.client.post("/v1/predict", content=content, headers={"content-type": kind})) == code


def test_damaged_arrow_at_every_place(server, mixed):
    import io

    whole = io.BytesIO()
    pl.DataFrame(mixed.rows[:3], infer_schema_length=None).write_ipc_stream(whole)
    content = bytearray(whole.getvalue())
    for place in range(0, len(content), max(1, len(content) // 60)):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        answer = server.client.post(
            "/v1/predict", content=bytes(damaged), headers={"content-type": "application/vnd.apache.arrow.stream"}
        )
        assert answer.status_code < 500, (place, answer.text)


@pytest.mark.parametrize("options", ["include=all", "alpha=x", "alpha=2", "key=nothing", "%ff=%fe", "a=1&" * 30])
def test_options_that_are_wrong(server, mixed, options):
    content = pl.DataFrame(mixed.rows[:2], infer_schema_length=None).write_csv().encode()
    error_of(server.client.post(f"/v1/predict?{options}", content=content, headers={"content-type": "text/csv"}))


def test_too_many_rows_and_columns(server, mixed):
    many = {"rows": [mixed.rows[0]] * 201}
    assert error_of(server.post("/v1/predict", many)) == "too_many_rows"
    wide = {"rows": [mixed.rows[0] | {f"c{number}": 0 for number in range(5_000)}]}
    assert error_of(server.post("/v1/predict", wide)) == "too_many_columns"


def test_requests_of_nothing(server):
    for path, content in (
        ("/v1/predict", {"rows": []}),
        ("/v1/step", {"rows": []}),
        ("/invocations", {"instances": []}),
    ):
        assert error_of(server.post(path, content)) == "no_rows"
    assert error_of(server.client.post("/v1/step", content=b"x0,x1\n", headers=CSV)) == "no_rows"
    assert error_of(server.post("/v1/labels", {"labels": []})) == "no_labels"


@pytest.mark.parametrize(
    "labels",
    [
        [{"label": "yes"}],
        [{"label": "yes", "id": "a", "key": 1}],
        [{"label": "yes", "key": 1}, {"label": "no", "key": 1.0}],
        [{"label": {"a": 1}, "key": 1}],
        [{"label": "yes", "key": 1, "row": {"x0": "high"}}],
        [{"label": "yes", "key": 1, "row": {"other": 1}}],
    ],
)
def test_labels_that_cannot_be_used(server, labels):
    error_of(server.post("/v1/labels", {"labels": labels}))


def test_addresses_and_methods_that_there_are_not(server):
    assert error_of(server.client.get("/v1/nothing")) == "not_found"
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "BREW"):
        answer = server.client.request(method, "/v1/state")
        assert answer.status_code in (400, 405)
    answer = server.client.get("/v1/predict")
    assert (error_of(answer), answer.headers["allow"]) == ("wrong_method", "POST")


@pytest.mark.parametrize("key", ["x" * 256, "a\tb"])
def test_keys_that_cannot_be_used(server, mixed, key):
    assert error_of(server.post("/v1/step", {"rows": mixed.rows[:1]}, Idempotency_Key=key)) == "bad_key"


# --- on the wire ---


def talk(server, *pieces: bytes) -> bytes:
    """Send pieces over a raw socket and read all that comes back."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as raw:
        for piece in pieces:
            with contextlib.suppress(ConnectionError):
                raw.sendall(piece)
        with contextlib.suppress(ConnectionError):
            return raw.makefile("rb").read()
    return b""


def test_a_body_that_is_longer_than_it_says_or_may_be(server):
    head = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = talk(server, head + b"Content-Length: 99999999999\r\n\r\n{")
    assert b" 413 " in answer
    # In pieces, without saying how long: refused while it streams, not at its end.
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    answer = talk(server, head + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 12)
    assert b" 413 " in answer
    assert b"too_large" in answer


def test_a_head_without_end_is_refused_soon(server):
    answer = talk(server, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", *[b"x" * 65_536] * 40)
    # Who still sends may see a connection that is reset.
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
    answer = talk(server, b"GET /" + b"y" * 70_000)
    assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "content",
    rest_slow([b"\x16\x03\x01\x02\x00\x01", b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 50_000], n_fast=3),
)
def test_what_is_not_http(server, content):
    answer = talk(server, content + b"\r\n\r\n")
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")


def test_a_request_without_a_host(server):
    assert talk(server, b"GET /v1/state HTTP/1.1\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_a_client_that_leaves_in_the_middle_disturbs_nobody(server, mixed):
    content = json.dumps({"rows": mixed.rows[:2]}).encode()
    head = (
        b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    for length in (0, 10, len(content)):
        raw = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.sendall(head % len(content) + content[:length])
        raw.close()  # a reset, not an end
    assert server.post("/v1/predict", {"rows": mixed.rows[:1]}).status_code == 200


def half_closed(port: int, *requests: bytes) -> bytes:
    """Send requests, say that no more will come, and read until the server closes too."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as raw:
        raw.sendall(b"".join(requests))
        raw.shutdown(socket.SHUT_WR)
        return raw.makefile("rb").read()


def test_a_socket_that_is_half_closed_is_answered(forks, numbers, tmp_path):
    content = json.dumps({"rows": numbers.rows[:2]}).encode()
    head = "POST /v1/step HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content
    with serving(forks, numbers.copy(tmp_path / "model")) as server:
        for first in (1, 3):
            answer = half_closed(server.port, request, request)
            assert answer.count(b"HTTP/1.1 200") == 2
            assert b'"round":%d' % first in answer
            assert b'"round":%d' % (first + 1) in answer
        # The beginning of a request gets no answer.
        assert half_closed(server.port, b"GET /v1/ev") == b""
        assert server.client.get("/readyz").json()["rounds"] == 4


def test_beyond_the_connections_the_refusal_has_our_shape(forks, numbers, tmp_path):
    with limited(forks, numbers.copy(tmp_path / "model"), "connections=3") as port, contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
        address = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{address}/healthz", trust_env=False, timeout=PATIENCE).status_code == 200
        refused = httpx.get(f"{address}/v1/state", trust_env=False, timeout=PATIENCE)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json()["error"]["code"] == "too_many_connections"
        stack.close()

        def is_welcome() -> bool:
            return httpx.get(f"{address}/v1/state", trust_env=False, timeout=PATIENCE).status_code == 200

        wait_for(is_welcome, "room for a connection")


@contextlib.contextmanager
def limited(forks, folder, limits: str):
    """A server with limits that have no option; yields its port."""
    code = f"""
import sys
from accous.service.bodies import Limits
from accous.service.server import serve
from accous.table.options import ServeOptions
from pathlib import Path
ready = lambda _, addresses: print("Serving on", addresses[0], flush=True)
serve(ServeOptions(model=Path(sys.argv[1]), port=0), ready, Limits({limits}))
"""
    with forks.start(code, folder, kind="code") as process:
        yield int(process.stdout.readline().decode().rpartition(":")[2])
        process.send_signal(15)
        assert process.wait() == 0


def test_slow_clients_are_given_up_and_disturb_nobody(forks, mixed, tmp_path):
    """With limits of half a second: a head and a body that never end, also after a request that was answered."""
    with limited(forks, mixed.copy(tmp_path / "model"), "head_seconds=0.5, body_seconds=0.5, idle_seconds=1") as port:
        post = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        begun = b"GET / HTTP/1.1\r\nHost: loc"
        whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        heads = (b"", begun, post + b"Content-Length: 9\r\n\r\n{", whole)
        answers: dict[bytes, bytes] = {}

        def wait(head: bytes) -> None:
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as raw:
                raw.sendall(head)
                first = raw.recv(1 << 16) if head == whole else b""
                if head == whole:
                    raw.sendall(begun)
                answers[head] = first + raw.makefile("rb").read()

        threads = [threading.Thread(target=wait, args=(head,)) for head in heads]
        for thread in threads:
            thread.start()
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False, timeout=PATIENCE).status_code == 200
        for thread in threads:
            thread.join()
        assert [answers[head][:12] for head in heads] == [b"", b"", b"HTTP/1.1 408", b"HTTP/1.1 200"]


def test_back_pressure_asks_clients_to_come_back(forks, numbers, tmp_path):
    """A queue of one batch, many clients, and a learner that is busy with large ones."""
    folder, codes = numbers.copy(tmp_path / "model"), []
    content = json.dumps({"rows": numbers.rows[:400]})
    with serving(forks, folder, "--queue", "1") as server:

        def send() -> None:
            with httpx.Client(base_url=server.address, timeout=PATIENCE, trust_env=False) as client:
                for _ in range(6):
                    answer = client.post("/v1/adapt", content=content, headers=JSON)
                    codes.append((answer.status_code, answer.headers.get("retry-after")))

        threads = [threading.Thread(target=send) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(codes) == {(200, None), (429, "1")}
        n_learned = sum(code == 200 for code, _ in codes)
        wait_for(lambda: server.client.get("/readyz").json()["rounds"] == n_learned, "rounds")


CSV = {"content-type": "text/csv"}


@pytest.mark.parametrize(
    ("path", "headers", "name"),
    [
        ("/v1/predict?inlude=ratio", CSV, "'inlude'"),
        ("/v1/step?inlude=ratio", CSV, "'inlude'"),
        ("/v1/adapt?x=", CSV, "'x'"),
        ("/v1/predict?include=ratio", JSON, "'include'"),
        ("/v1/labels?key=order", JSON, "'key'"),
    ],
)
def test_parameters_of_an_address_that_are_not_known(server, path, headers, name):
    """They would be left out silently, and the answer would lack what was asked for."""
    answer = server.client.post(path, content=b'{"rows": []}', headers=headers)
    assert error_of(answer) == "invalid"
    assert f"parameter {name}" in answer.json()["error"]["message"]


def test_json_is_told_what_is_allowed_as_csv_is(server, mixed):
    sent = json.dumps({"rows": mixed.rows[:1], "include": ["ids", "rato"]})
    by_json = server.client.post("/v1/predict", content=sent, headers=JSON).json()["error"]
    table = pl.DataFrame(mixed.rows[:1]).write_csv()
    by_csv = server.client.post("/v1/predict?include=ids,rato", content=table, headers=CSV).json()["error"]
    assert by_json == by_csv
    assert "'rato'" in by_json["message"]


@pytest.mark.parametrize(
    ("path", "content", "fields"),
    [
        ("/v1/predict", {"rows": [], "inlude": []}, "`inlude`"),
        ("/v1/labels", {"labels": [], "x": 1}, "`x`"),
        ("/v1/labels", {"labels": [{"labl": "yes"}]}, "id, key, row"),
    ],
)
def test_fields_that_are_not_known(server, path, content, fields):
    answer = server.client.post(path, content=json.dumps(content), headers=JSON)
    assert error_of(answer) == "invalid"
    assert fields in answer.json()["error"]["message"]
