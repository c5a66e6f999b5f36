"""Large bodies are read in a thread, whichever door they come through."""

import asyncio
import json
import threading

import httpx
import pytest

from accous.service.app import Service, make_app
from accous.service.bodies import BatchReader, Limits
from accous.service.interface import Gate, Tokens
from accous.service.live import Metrics
from accous.table.model import load_table_model

N_ROWS = 2_000


@pytest.mark.parametrize("path", ["/v1/predict", "/v2/models/model/infer", "/invocations"])
def test_large_bodies_do_not_hold_up_the_event_loop(numbers, path):
    table_model = load_table_model(numbers.folder)
    reader, threads = BatchReader(table_model, Limits()), []

    def serve() -> BatchReader:
        threads.append(threading.current_thread())
        return reader

    service = Service(name="model", reader=serve, limits=Limits(), gate=Gate(Tokens()), metrics=Metrics())
    rows = (numbers.rows * 10)[:N_ROWS]
    tensors = [{"name": n, "shape": [N_ROWS], "datatype": "FP64", "data": [row[n] for row in rows]} for n in rows[0]]
    few = [each | {"shape": [2], "data": each["data"][:2]} for each in tensors]
    contents = {
        "/v1/predict": ({"rows": rows}, {"rows": rows[:2]}),
        "/v2/models/model/infer": ({"inputs": tensors}, {"inputs": few}),
        "/invocations": ({"instances": rows}, {"instances": rows[:2]}),
    }

    async def ask() -> list[threading.Thread]:
        transport = httpx.ASGITransport(make_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for content in contents[path]:
                answer = await client.post(
                    path, content=json.dumps(content), headers={"content-type": "application/json"}
                )
                assert answer.status_code == 200, answer.text
        return [threading.current_thread()]

    threads.clear()
    (own,) = asyncio.run(ask())
    large, small = threads
    assert large is not own
    assert small is own
