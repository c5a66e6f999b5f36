"""Server-sent events: they come, have ids, and go on where a reader was, also after the server starts again."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.service.servers import Server, serving
from tests.waiting import PATIENCE, wait_for


def events_of(server: Server, last: str | None = None) -> Iterator[dict[str, Any]]:
    """Events as a browser takes them from the stream."""
    headers = {} if last is None else {"last-event-id": last}
    with (
        httpx.Client(base_url=server.address, timeout=PATIENCE, trust_env=False) as client,
        client.stream("GET", "/v1/events", headers=headers) as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        found: dict[str, Any] = {}
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if not line and "event" in found:
                yield found | {"data": json.loads(found["data"])}
            found = found | {name: value} if line else {}


def step(server: Server, rows: list, first: int, n_rounds: int) -> None:
    for start in range(first, first + n_rounds):
        server.step(rows[start : start + 1])


@pytest.fixture(scope="module")
def followed(forks, numbers, tmp_path_factory) -> Iterator[Server]:
    with serving(forks, numbers.copy(tmp_path_factory.mktemp("events") / "model")) as server:
        yield server


def test_a_new_reader_gets_the_latest_reading_and_what_follows(followed, numbers):
    events = events_of(followed)
    first = next(events)
    assert first["event"] == "reading"
    step(followed, numbers.rows, 0, 3)
    later = next(event for event in events if event["event"] == "reading" and event["data"]["rounds"] >= 3)
    assert tuple(map(int, later["id"].split("."))) > tuple(map(int, first["id"].split(".")))
    events.close()


def test_a_reader_goes_on_after_the_last_event_it_saw(followed, numbers):
    events = events_of(followed)
    seen = next(events)["id"]
    step(followed, numbers.rows, 3, 1)
    second = next(events)
    events.close()
    again = events_of(followed, seen)
    assert next(again) == second
    again.close()


@pytest.mark.parametrize("last", ["999999.0", "nonsense", "-1.5", "1.x", "9" * 50, ""])
def test_an_id_that_cannot_be_known_starts_anew(followed, last):
    events = events_of(followed, last)
    assert next(events)["event"] in ("reset", "reading")
    events.close()


def test_ids_go_on_after_a_crash_and_nobody_misses_anything(forks, model, numbers):
    with serving(forks, model) as server:
        events = events_of(server)
        first = next(events)
        step(server, numbers.rows, 0, 4)
        last = next(event for event in events if event["data"].get("rounds") == 4)
        server.kill()
        with pytest.raises(httpx.TransportError):
            list(events)
    with serving(forks, model) as server:
        behind, new, events = events_of(server, first["id"]), events_of(server), events_of(server, last["id"])
        # Who missed events that are gone is told to look anew; who is new gets the latest reading.
        assert next(behind)["event"] == "reset"
        assert next(new)["data"]["rounds"] == 4
        step(server, numbers.rows, 4, 2)
        # Who had seen everything gets nothing twice, and no reset: what follows is new.
        found = next(events)
        assert (found["event"], found["data"]["rounds"] > 4) == ("reading", True)
        assert tuple(map(int, found["id"].split("."))) > tuple(map(int, last["id"].split(".")))
        for each in (behind, new, events):
            each.close()


def test_the_head_of_the_stream_ends(followed):
    """A checker of addresses asks for the head only: the connection is free again, and nobody counts as a reader."""
    for _ in range(2):
        answer = followed.client.head("/v1/events")
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-type"].startswith("text/event-stream")
    wait_for(lambda: "accous_event_streams 0.0" in followed.client.get("/metrics").text, "end of the other streams")


def test_an_orderly_end_ends_the_streams(forks, model):
    with serving(forks, model) as server:
        events = events_of(server)
        next(events)
        server.process.send_signal(15)
        assert list(events) == []
        assert server.process.wait() == 0


@pytest.mark.slow
def test_drift_state_and_alarm_are_events(forks, numbers, tmp_path):
    with serving(forks, numbers.copy(tmp_path / "model")) as server:
        events = events_of(server)
        next(events)
        far = [row | {"x0": row["x0"] + 9.0, "x1": row["x1"] - 9.0} for row in numbers.rows]
        answers = [server.step(numbers.rows[start : start + 10]) for start in range(0, 300, 10)]
        server.wait_for_rounds(30)
        # Until now nobody knew: all labels are what was predicted.
        pairs = [pair for each in answers for pair in zip(each["ids"], each["predictions"], strict=True)]
        labels = [{"id": name, "label": label} for name, label in pairs]
        assert server.post("/v1/labels", {"labels": labels, "learn": False}).json()["counted"] == 300
        wait_for(lambda: server.client.get("/v1/state").json()["state"] == "healthy", "reading of the labels")
        kinds = set()
        for start in range(0, 800, 10):
            server.step(far[start : start + 10])
        for event in events:
            kinds.add(event["event"])
            if event["event"] == "drift":
                assert event["data"]["features"]
            if event["event"] == "state":
                assert event["data"]["reasons"][0]["code"]
            if {"drift", "state"} <= kinds:
                break
        events.close()
