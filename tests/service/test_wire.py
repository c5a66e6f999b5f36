"""What goes over the wire: pieces, pipelines, clients that close, and batches that wait."""

import contextlib
import json
import signal
import socket

import pytest

from tests.service.servers import held, serving
from tests.waiting import PATIENCE, wait_for

HEAD = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server(forks, numbers, tmp_path_factory):
    with serving(forks, numbers.copy(tmp_path_factory.mktemp("wire") / "model")) as server:
        yield server


def body_of(rows, **more) -> bytes:
    return json.dumps({"rows": rows, **more}).encode()


def request(path: bytes, body: bytes, more: bytes = b"") -> bytes:
    return HEAD % path + more + b"Content-Length: %d\r\n\r\n" % len(body) + body


def read_answer(file) -> tuple[int, dict[str, str], dict]:
    """Read one answer from a connection that stays open."""
    status = int(file.readline().split()[1])
    headers = {}
    while (line := file.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    if status == 100:
        return read_answer(file)
    return status, headers, json.loads(file.read(int(headers["content-length"])))


def connected(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)


def test_an_answer_does_not_depend_on_how_the_request_arrives(server, numbers):
    body = body_of(numbers.rows[:2], include=["probabilities"])
    one_piece, chunked = request(b"/v1/predict", body), b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    ways = [
        [one_piece],
        [one_piece[:40], one_piece[40:]],  # within the head
        [one_piece[:-30], one_piece[-30:]],  # within the body
        [one_piece[: -len(body)], body],
        [HEAD % b"/v1/predict" + b"Transfer-Encoding: chunked\r\n\r\n" + chunked],
        [request(b"/v1/predict?", body)],
        [request(b"/v1/predict", body, b"Expect: 100-continue\r\n")],
        [request(b"/v1/predict", body, b"Idempotency-Key: a\r\n")],
        [request(b"/v1/predict", body + b" " * 40_000)],
    ]
    found = []
    for pieces in ways:
        with connected(server) as raw:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for piece in pieces:
                raw.sendall(piece)
            status, headers, content = read_answer(raw.makefile("rb"))
        found.append((status, sorted(headers.items()), content))
    assert found[0][0] == 200
    assert all(each == found[0] for each in found)


def test_requests_in_one_piece_are_answered_in_their_order(server, numbers):
    """A prediction behind a step waits for it, and sees its round."""
    predict = request(b"/v1/predict", body_of(numbers.rows[:1], include=[]))
    step = request(b"/v1/step", body_of(numbers.rows[:1]))
    with connected(server) as raw:
        raw.sendall(predict + step + predict + step + step + predict)
        file = raw.makefile("rb")
        answers = [read_answer(file) for _ in range(6)]
        raw.sendall(predict)
        answers.append(read_answer(file))
    assert [status for status, _, _ in answers] == [200] * 7
    first = answers[0][2]["round"]
    assert [content["round"] - first for _, _, content in answers] == [0, 1, 1, 2, 3, 3, 3]
    assert ["ids" in content for _, _, content in answers] == [False, True, False, True, True, False, False]


@pytest.mark.parametrize("path", [b"/v1/predict", b"/v1/step", b"/v1/adapt"])
def test_a_client_that_wants_the_connection_closed(server, numbers, path):
    with connected(server) as raw:
        raw.sendall(request(path, body_of(numbers.rows[:1]), b"Connection: close\r\n"))
        file = raw.makefile("rb")
        status, headers, _ = read_answer(file)
        assert (status, headers["connection"], file.read()) == (200, "close", b"")


def test_a_client_that_sends_no_more_gets_its_answer(server, numbers):
    with connected(server) as raw:
        raw.sendall(request(b"/v1/step", body_of(numbers.rows[:1])))
        raw.shutdown(socket.SHUT_WR)
        file = raw.makefile("rb")
        assert read_answer(file)[0] == 200
        assert file.read() == b""


@pytest.mark.parametrize("path", [b"/v1/predict", b"/v1/step"])
def test_refusals_leave_the_connection_open(server, numbers, path):
    good = body_of(numbers.rows[:1])
    with connected(server) as raw:
        file = raw.makefile("rb")
        for body, expected in ((b"{", 400), (b'{"rows": [{}]}', 422), (good, 200)):
            raw.sendall(request(path, body))
            status, headers, content = read_answer(file)
            assert (status, headers["content-type"]) == (expected, "application/json")
            assert (status == 200) == ("error" not in content)


def test_a_refusal_that_closes(server):
    with connected(server) as raw:
        raw.sendall(request(b"/v1/predict", b"{}").replace(b"Host: localhost", b"Host: elsewhere"))
        file = raw.makefile("rb")
        status, headers, _ = read_answer(file)
        assert (status, headers["connection"], file.read()) == (421, "close", b"")


def test_bodies_that_arrive_at_the_same_time_are_bounded_together(forks, numbers, tmp_path):
    body = body_of(numbers.rows[:1]).ljust(90_000)
    whole = request(b"/v1/predict", body)
    with (
        held(forks, numbers.copy(tmp_path / "model"), "held_bytes=100_000") as (client, process),
        contextlib.ExitStack() as stack,
    ):
        address = ("127.0.0.1", client.base_url.port)
        raws = [stack.enter_context(socket.create_connection(address, timeout=PATIENCE)) for _ in range(2)]
        files = [raw.makefile("rb") for raw in raws]
        for raw in raws:
            raw.sendall(whole[:-10_000])
        # Both have sent 80,000 bytes: whichever comes second has no room.
        for raw in raws:
            raw.setblocking(False)
        refused = []
        wait_for(lambda: refused.extend(n for n, raw in enumerate(raws) if has_answer(raw)) or refused, "refusal")
        for raw in raws:
            raw.settimeout(PATIENCE)
        (number,) = refused
        status, headers, content = read_answer(files[number])
        assert (status, content["error"]["code"], headers["retry-after"]) == (503, "too_busy", "1")
        raws[1 - number].sendall(whole[-10_000:])
        assert read_answer(files[1 - number])[0] == 200
        # Nothing is counted any more.
        assert client.post("/v1/predict", content=body, headers={"content-type": "application/json"}).status_code == 200
        process.send_signal(signal.SIGUSR1)


def has_answer(raw) -> bool:
    try:
        return bool(raw.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
