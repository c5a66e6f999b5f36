"""A client that keeps a number of requests open on plain sockets, and how long each took."""

from __future__ import annotations

import os
import selectors
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Found", "Load", "measure"]

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """What is sent, and how much of it at a time."""

    port: int
    path: str
    contents: list[bytes]
    kind: str
    n_clients: int

    def requests(self) -> list[bytes]:
        """Return whole requests."""
        head = f"POST {self.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {self.kind}\r\nContent-Length: "
        return [f"{head}{len(each)}\r\n\r\n".encode() + each for each in self.contents]


@dataclass(frozen=True)
class Found:
    """Times of requests in seconds, requests a second, and processor time of the server for one."""

    times: np.ndarray[Any, np.dtype[np.float64]]
    rate: float
    cpu: float

    def quantile(self, share: float) -> float:
        """Return a quantile of the times."""
        return float(np.quantile(self.times, share))

    @classmethod
    def of_all(cls, parts: list[Found]) -> Found:
        """Return measurements of the same length as one."""
        counts = [len(part.times) for part in parts]
        cpu = sum(part.cpu * count for part, count in zip(parts, counts, strict=True)) / sum(counts)
        return cls(np.concatenate([part.times for part in parts]), sum(part.rate for part in parts) / len(parts), cpu)


class _Connection:
    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.began, self.content = 0.0, b""

    def send(self, request: bytes) -> None:
        self.content, self.began = b"", time.perf_counter()
        self.sock.sendall(request)

    def receive(self) -> bool:
        """Read what is there; return whether the answer is complete."""
        self.content += self.sock.recv(1 << 18)
        head, found, body = self.content.partition(b"\r\n\r\n")
        if not found:
            return False
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"refused: {self.content[:300]!r}")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return len(body) >= length


def measure(load: Load, pid: int, seconds: float) -> Found:
    """Keep as many requests open as there are clients, for so many seconds."""
    requests, times = load.requests(), []
    selector = selectors.DefaultSelector()
    connections = [_Connection(load.port) for _ in range(load.n_clients)]
    for number, connection in enumerate(connections):
        selector.register(connection.sock, selectors.EVENT_READ, connection)
        connection.send(requests[number % len(requests)])
    n_sent, cpu, began = len(connections), _cpu(pid), time.perf_counter()
    is_over, n_open = False, len(connections)
    while n_open:
        for key, _ in selector.select():
            connection = key.data
            if not connection.receive():
                continue
            now = time.perf_counter()
            times.append(now - connection.began)
            is_over = now - began > seconds
            if is_over:
                n_open -= 1
                selector.unregister(connection.sock)
                continue
            connection.send(requests[n_sent % len(requests)])
            n_sent += 1
    taken = time.perf_counter() - began
    cpu = _cpu(pid) - cpu
    for connection in connections:
        connection.sock.close()
    return Found(np.array(times), len(times) / taken, cpu / len(times))


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def main() -> None:
    """Keep the learner of a server busy: ``python -m benchmarks.service_load PORT SECONDS``."""
    row = ", ".join(f'"x{number}": {0.1 * number}' for number in range(1, 13))
    content = f'{{"rows": [{{{row}}}]}}'.encode()
    measure(Load(int(sys.argv[1]), "/v1/step", [content], "application/json", 4), os.getpid(), float(sys.argv[2]))


if __name__ == "__main__":
    main()
