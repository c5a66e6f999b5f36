"""A server that is killed again and again while clients send batches, and what must hold after each time."""

import json
import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.forks import ForkServer
from tests.service.servers import JSON, Server
from tests.waiting import PATIENCE

N_CLIENTS = 4


@dataclass
class Client:
    """Sends batches one after the other, each again and again with the same key until it is acknowledged."""

    number: int
    rows: list[dict[str, Any]]
    place: "Place"
    acknowledged: dict[str, dict[str, Any]] = field(default_factory=dict)
    sent: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    errors: list[BaseException] = field(default_factory=list)

    def run(self, is_over: threading.Event) -> None:
        try:
            with httpx.Client(timeout=PATIENCE, trust_env=False) as http:
                while not is_over.is_set():
                    self._send_next(http)
        except BaseException as error:  # raised by the test
            self.errors.append(error)

    def _send_next(self, http: httpx.Client) -> None:
        key = f"c{self.number}-{len(self.sent)}"
        path, content = self.sent[key] = self._next(key)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                answer = http.post(
                    f"{self.place.address}{path}", content=json.dumps(content), headers={**JSON, "idempotency-key": key}
                )
            except httpx.TransportError:
                self.place.has_changed.wait(0.05)
                continue
            if answer.status_code == 200:
                self.acknowledged[key] = answer.json()
                return
            assert answer.status_code in (429, 503), answer.text
        raise AssertionError(f"{key} was never acknowledged")

    def _next(self, name: str) -> tuple[str, dict[str, Any]]:
        """In turns: steps with ids, labels by these, batches, steps with keys, labels by these, and questions."""
        turn, start = len(self.sent) % 6, (7 * self.number + 3 * len(self.sent)) % (len(self.rows) - 3)
        rows = self.rows[start : start + 1 + len(self.sent) % 3]
        label = "yes" if len(self.sent) % 2 else "no"
        if turn == 1:
            ids = self.acknowledged[f"c{self.number}-{len(self.sent) - 1}"]["ids"]
            return "/v1/labels", {"labels": [{"id": each, "label": label} for each in ids]}
        if turn == 3:
            named = [row | {"order": f"{name}-{place}"} for place, row in enumerate(rows)]
            return "/v1/step", {"rows": named, "key": "order"}
        if turn == 4:
            before = self.sent[f"c{self.number}-{len(self.sent) - 1}"][1]["rows"]
            return "/v1/labels", {"labels": [{"key": row["order"], "label": label, "row": row} for row in before]}
        if turn == 5:
            return "/v1/ask", {"n": 1 + len(self.sent) % 3}
        return "/v1/adapt" if turn == 2 else "/v1/step", {"rows": rows}


class Place:
    """Where the server is now."""

    def __init__(self) -> None:
        self.address = "http://127.0.0.1:9"
        self.has_changed = threading.Event()

    def move(self, address: str) -> None:
        self.address = address
        self.has_changed.set()
        self.has_changed.clear()


def crash(forks: ForkServer, folder: Path, rows: list[dict[str, Any]], n_kills: int, seed: int) -> list[Client]:
    """Kill a server so often at random moments, then end it in order; return what its clients saw."""
    chance, place, is_over = random.Random(seed), Place(), threading.Event()
    clients = [Client(number, rows, place) for number in range(N_CLIENTS)]
    threads = [threading.Thread(target=client.run, args=(is_over,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        for number in range(n_kills + 1):
            # Few batches between saves, so that kills hit saves too.
            server = Server(forks, folder, "--save-batches", chance.choice((3, 20, 1000)), "--quiet")
            place.move(server.address)
            if number == n_kills:
                break
            before = sum(len(client.acknowledged) for client in clients)
            wanted = chance.randrange(8)
            end = time.monotonic() + PATIENCE
            while sum(len(client.acknowledged) for client in clients) < before + wanted:
                assert not any(client.errors for client in clients), [client.errors for client in clients]
                assert time.monotonic() < end
                time.sleep(0.001)
            time.sleep(chance.random() * 0.02)
            server.kill()
    finally:
        is_over.set()
        if number == n_kills:
            for thread in threads:
                thread.join()
            assert server.stop() == 0
    assert not any(client.errors for client in clients), [client.errors for client in clients]
    return clients
