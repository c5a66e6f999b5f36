"""`accous demo --serve`: the stream is replayed to a real server, with late labels, until Ctrl-C."""

import os
import signal

import httpx
import pytest

from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.slow


def test_the_demo_feeds_the_live_page(forks, tmp_path):
    # Any command will do for a browser.
    environment = {**os.environ, "BROWSER": "true"}
    options = ("--serve", "--port", "0", "--rounds", "2000", "--pace", "200")
    with forks.start("accous", "demo", *options, cwd=tmp_path, env=environment) as process:
        line = process.stdout.readline().decode()
        address = line.removeprefix("The live page: ").split()[0]
        client = httpx.Client(base_url=address, timeout=PATIENCE, trust_env=False)

        def state() -> dict:
            return client.get("/v1/state").json()

        wait_for(lambda: state()["rounds"] > 120 and state()["labelled_rows"] > 10, "rounds and late labels")
        assert 'id="status"' in client.get("/").text
        client.close()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    assert list(tmp_path.iterdir()) == []


def test_the_labels_of_the_last_rounds_arrive_too(forks, tmp_path):
    options = ("--serve", "--port", "0", "--rounds", "60", "--pace", "500")
    with forks.start("accous", "demo", *options, cwd=tmp_path, env={**os.environ, "BROWSER": "true"}) as process:
        address = process.stdout.readline().decode().removeprefix("The live page: ").split()[0]
        client = httpx.Client(base_url=address, timeout=PATIENCE, trust_env=False)
        wait_for(lambda: client.get("/v1/state").json()["labelled_rows"] == 12, "labels of one round in five")
        client.close()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
