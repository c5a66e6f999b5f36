"""What strangers tried: each of these took memory, lost an answer, hung, or got past a check."""

import asyncio
import contextlib
import gzip
import io
import resource
import shutil
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import httpx
import polars as pl
import pytest

from accous.cli import main
from accous.exceptions import CheckpointError
from accous.service.app import Service, make_app
from accous.service.bodies import BatchReader, HttpError, Limits
from accous.service.interface import Gate, Tokens
from accous.service.learner import Executor, Learner, open_owned
from accous.service.live import Metrics
from accous.service.log import Idempotency, Record
from accous.service.server import FollowedModel
from accous.table.model import load_table_model, open_store
from tests.service.servers import JSON, serving
from tests.service.test_wire import body_of, connected, read_answer, request
from tests.waiting import PATIENCE, wait_for

ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc: run the tests on Linux")


@pytest.fixture(scope="module")
def server(forks, numbers, tmp_path_factory):
    with serving(forks, numbers.copy(tmp_path_factory.mktemp("attacks") / "model")) as server:
        server.post("/v1/predict", {"rows": numbers.rows[:2]})
        yield server
    assert "Traceback" not in server.stderr


def memory(server, field: str = "VmHWM") -> float:
    """Memory of a server in megabytes: the most that it ever had, or that of now."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


# --- on the wire ---


CHUNKED = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@needs_proc
@pytest.mark.parametrize("piece", [b"X-Trailer: " + b"x" * 1_000 + b"\r\n", b"x" * 1_000], ids=["many", "one"])
def test_endless_trailers_take_no_memory_and_stall_nobody(server, piece):
    before, is_closed = memory(server), False
    with connected(server) as raw:
        raw.sendall(CHUNKED % b"/v1/predict" + b"2\r\n{}\r\n0\r\nX: ")
        for _ in range(40):
            try:
                raw.sendall(piece * 1_000)
            except ConnectionError:
                is_closed = True
        assert server.client.get("/healthz").status_code == 200
    assert is_closed  # so that what is read is bounded, and with it the time
    assert memory(server) - before < 16


def test_trailers_are_no_headers(server, numbers):
    """They come after the checks, and must not change what was checked."""
    body = body_of(numbers.rows[:1])
    chunk = b"%x\r\n%s\r\n0\r\n" % (len(body), body)
    trailers = b"Host: evil.example\r\nOrigin: https://evil.example\r\nContent-Type: text/csv\r\n\r\n"
    with connected(server) as raw:
        raw.sendall(CHUNKED % b"/v1/predict" + chunk + trailers)
        file = raw.makefile("rb")
        assert read_answer(file)[0] == 200
        raw.sendall((CHUNKED % b"/v1/predict").replace(b"localhost", b"evil.example") + chunk)
        time.sleep(0.05)
        raw.sendall(b"Host: localhost\r\n\r\n")
        assert read_answer(file)[0] == 421


def test_who_offers_another_protocol_is_answered_in_this_one(server, numbers):
    """As ``curl --http2`` and Java's client do."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"
    with connected(server) as raw:
        file = raw.makefile("rb")
        for _ in range(2):
            raw.sendall(request(b"/v1/predict", body_of(numbers.rows[:2]), offer))
            status, _, content = read_answer(file)
            assert (status, len(content["predictions"])) == (200, 2)


def test_steps_before_garbage_are_answered(server, numbers):
    step = request(b"/v1/step", body_of(numbers.rows[:1]))
    first = server.client.get("/readyz").json()["rounds"]
    with connected(server) as raw:
        raw.sendall(step + step + b"\x00garbage\r\n\r\n")
        file = raw.makefile("rb")
        answers = [read_answer(file) for _ in range(2)]
        assert file.readline().startswith(b"HTTP/1.1 400")
    assert [(status, content["round"] - first) for status, _, content in answers] == [(200, 1), (200, 2)]
    assert server.client.get("/readyz").json()["rounds"] == first + 2


@pytest.mark.parametrize(
    "host",
    ["localhost:80@evil", "localhost:80@evil:80", "localhost:", "localhost: 80", "localhost/x:80", "[::1]evil:1"],
)
def test_hosts_that_only_look_like_this_machine_are_refused(server, host):
    assert server.client.get("/v1/state", headers={"host": host}).status_code in (400, 421)


@pytest.mark.parametrize("names", [(b"localhost", b"evil.example"), (b"evil.example", b"localhost")])
def test_two_hosts_are_refused(server, names):
    with connected(server) as raw:
        raw.sendall(b"GET /v1/state HTTP/1.1\r\nHost: %s\r\nHost: %s\r\nConnection: close\r\n\r\n" % names)
        assert raw.makefile("rb").readline().split()[1] in (b"400", b"421")


def test_a_probe_is_answered_while_many_watch(forks, numbers, tmp_path):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4_200:
        pytest.skip("needs 4,200 open files: raise ulimit -n")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    watch = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(forks, numbers.copy(tmp_path / "model")) as server, contextlib.ExitStack() as stack:
        raws = [stack.enter_context(connected(server)) for _ in range(2_050)]
        for raw in raws:
            raw.sendall(watch)
        heads = [raw.recv(12) for raw in raws]
        assert heads.count(b"HTTP/1.1 200") == Limits().streams
        assert heads.count(b"HTTP/1.1 503") == len(raws) - Limits().streams
        for path in ("/healthz", "/readyz", "/v2/health/live"):
            assert httpx.get(server.address + path, trust_env=False, timeout=PATIENCE).status_code == 200
        assert server.step(numbers.rows[:1])["round"] == 1


# --- in bodies ---


@needs_proc
def test_lists_of_many_items_take_no_memory(server):
    """A few kilobytes each, and together five gigabytes when they were decoded."""
    body = gzip.compress(b'{"rows":[{"x1":[' + b"1," * 7_900_000 + b"1]}]}", 9)
    tensors = b'{"inputs":[{"name":"x0","shape":[1],"datatype":"FP64","data":[' + b"1," * 7_900_000 + b"1]}]}"
    bombs = [("/v1/predict", body), ("/v1/step", body), ("/v2/models/model/infer", gzip.compress(tensors, 9))]
    before, found = memory(server), []

    def send(path: str, content: bytes) -> None:
        headers = JSON | {"content-encoding": "gzip"}
        found.append(
            httpx.post(server.address + path, content=content, headers=headers, trust_env=False, timeout=PATIENCE)
        )

    threads = [threading.Thread(target=send, args=bombs[number % 3]) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in found} == {413}
    assert memory(server) - before < 120


def arrow(**columns: pl.Series) -> bytes:
    content = io.BytesIO()
    pl.DataFrame(columns).write_ipc_stream(content)
    return content.getvalue()


BEYOND = [
    pl.Series([2_932_897], dtype=pl.Int32).cast(pl.Date),
    pl.Series([-719_163], dtype=pl.Int32).cast(pl.Date),
    pl.Series([2**31 - 1], dtype=pl.Int32).cast(pl.Date),
    pl.Series([2**62]).cast(pl.Datetime("ms")),
    pl.Series([-(2**62)]).cast(pl.Datetime("us")),
    pl.Series([2**62]).cast(pl.Duration("ms")),
    pl.Series([-62_135_596_800_000]).cast(pl.Datetime("ms", "America/New_York")),
    pl.Series([253_402_300_799_999]).cast(pl.Datetime("ms", "Asia/Tokyo")),
]


@pytest.mark.parametrize("day", BEYOND, ids=lambda day: str(day.dtype))
def test_dates_beyond_the_calendar_are_refused(mixed, day):
    rows = pl.DataFrame(mixed.rows[:1], infer_schema_length=None).drop("day").to_dict()
    reader = BatchReader(load_table_model(mixed.folder), Limits())
    content = arrow(**rows, day=day)
    for options in ({}, {"key": "day"}):
        with pytest.raises(HttpError) as refused:
            reader.read(content, ARROW["content-type"], options)
        assert 400 <= refused.value.status < 500


@pytest.mark.parametrize(
    "kind", [pl.Datetime("ns"), pl.Datetime("us", "UTC"), pl.Duration("ns"), pl.Time, pl.Date], ids=str
)
def test_dates_and_times_of_any_unit_are_read(mixed, kind):
    """A frame of pandas has nanoseconds."""
    rows = pl.DataFrame(mixed.rows[:2], infer_schema_length=None).with_columns(when=pl.Series([0, None]).cast(kind))
    reader = BatchReader(load_table_model(mixed.folder), Limits())
    content = arrow(**rows.to_dict())
    assert len(reader.read(content, ARROW["content-type"], {}).X) == 2


def test_a_panic_neither_ends_the_learner_nor_comes_back(forks, mixed, tmp_path):
    """A date beyond Python's range as the key of a row: the next request is learned, also after a crash."""
    rows = pl.DataFrame(mixed.rows[:1], infer_schema_length=None)
    content = arrow(**rows.to_dict(), order=BEYOND[2])
    folder = mixed.copy(tmp_path / "model")
    with serving(forks, folder) as server:
        for path in ("/v1/predict?key=order", "/v1/step?key=order", "/v1/adapt"):
            answer = server.client.post(path, content=content, headers=ARROW)
            assert (answer.status_code, answer.json()["error"]["code"]) == (422, "bad_value")
        server.step(mixed.rows[:2])
        server.kill()
    with serving(forks, folder) as server:
        assert server.client.get("/readyz").json()["rounds"] == 1
    assert "Traceback" not in server.stderr


def test_a_panic_while_learning_is_an_answer(numbers, monkeypatch):
    """Whatever polars does, the record has a result, and the same one when the log is replayed."""
    table_model = load_table_model(numbers.folder)
    store = open_store(table_model, numbers.folder)
    executor = Executor(table_model, BatchReader(table_model, Limits()), Idempotency(), store)
    record = Record("step", "application/json", body_of(numbers.rows[:1]))
    parsed = executor.parse(record)

    monkeypatch.setattr(table_model, "run_rounds", panic)
    assert executor.carry_out(1, record, parsed).status_code == 500


def panic(*_arguments, **_named):
    raise pl.exceptions.PanicException("a panic is no Exception")


def test_a_panic_in_a_prediction_is_an_error_of_our_shape(numbers):
    service = Service(name="model", reader=panic, limits=Limits(), gate=Gate(Tokens()), metrics=Metrics())

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(make_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post("/v1/predict", content=body_of(numbers.rows[:1]), headers=JSON)

    answer = asyncio.run(ask())
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "failed")


def test_a_panic_while_saving_does_not_end_the_learner(numbers, tmp_path, monkeypatch):
    owned = open_owned(numbers.copy(tmp_path / "model"), Limits())
    learner = Learner(owned, Limits(), Metrics(), save_batches=1, save_seconds=60.0)
    monkeypatch.setattr(owned.executor, "store_predictions", panic)
    learner.save()
    with pytest.raises(CheckpointError, match="could not be saved"):
        learner.stop()
    owned.log.close()
    owned.executor.close()


def test_no_error_keeps_a_worker_from_the_newest_model_or_from_ending_with_its_parent(monkeypatch):
    followed, parent, kill = FollowedModel.__new__(FollowedModel), Mock(), Mock()
    parent.is_alive.side_effect = [True, True, True, False]
    monkeypatch.setattr("multiprocessing.parent_process", lambda: parent)
    monkeypatch.setattr("os.kill", kill)
    followed._seen, followed._mark = None, Mock()
    followed._load = Mock(side_effect=[ValueError, pl.exceptions.PanicException, "newest"])
    followed._follow()
    assert (followed.reader(), kill.call_count) == ("newest", 1)


@pytest.mark.parametrize(
    "body",
    [b'{"%s": 1}', b'{"rows": [{"x0": 1, "x1": 1, "x2": 1, "x3": 1}], "key": "%s"}', b'{"rows": [{"x0": "%s"}]}'],
)
def test_a_refusal_is_short_whatever_it_quotes(server, body):
    answer = server.client.post("/v1/predict", content=body % (b"x" * 1_000_000), headers=JSON)
    assert answer.status_code == 422
    assert len(answer.content) < 3_000


def test_strangers_do_not_fill_the_log(server):
    before = len(server.stderr)
    for content in (
        b"\x00garbage\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ):
        with connected(server) as raw:
            raw.sendall(content)
            assert raw.recv(100)
    assert len(server.stderr) == before


CSV = {"content-type": "text/csv"}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("x0,x1,x2,x3,x0\n1,2,3,4,5\n", "'x0' twice."),
        ("x0,x1,x2,x31,1,2,2", "--data-binary"),
        ("x0,x1,x2,x3\n1,2,3\n", "Line 2 "),
        ('x0,x1,x2,x3\n1,2,3,"4,\n"\n1,2\n', "Line 4 "),
        ("x0,x1,x2,x3\n1,2,3,4\n\n", "Line 3 "),
        ("x0,x1,x2,x3\n1,2,3,4,5\n", "Line 2 "),
    ],
)
def test_tables_whose_values_would_move_are_refused(server, table, words):
    answer = server.client.post("/v1/predict", content=table, headers=CSV)
    assert answer.status_code in (400, 422)
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize("names", [("True", "False"), ("true", "false")])
def test_true_and_false_are_the_classes_of_that_name(forks, numbers, tmp_path, names):
    yes, no = names
    labels = [yes if label == "yes" else no for label in numbers.labels[:200]]
    table = pl.DataFrame(numbers.rows[:200]).with_columns(pl.Series("label", labels))
    table.write_csv(tmp_path / "reference.csv")
    arguments = ["fit", str(tmp_path / "reference.csv"), "--label", "label", "-o", str(tmp_path / "model"), "--quiet"]
    assert main(arguments) == 0
    with serving(forks, tmp_path / "model") as server:
        answer = server.post("/v1/predict", {"rows": numbers.rows[:40]}).json()
        truth = [each == yes for each in answer["predictions"]]
        labels = [{"id": one, "label": label} for one, label in zip(answer["ids"], truth, strict=True)]
        counted = server.post("/v1/labels", {"labels": labels}).json()
        assert (counted["counted"], counted["unknown_labels"]) == (40, {})
        wait_for(lambda: server.client.get("/v1/state").json()["n_labels"] == 40, "reading of the labels")
        state = server.client.get("/v1/state").json()
        assert (state["basis"], state["n_labels"], state["value"]) == ("labels", 40, pytest.approx(0.0, abs=0.02))


# --- on the disk ---


def test_an_end_whose_save_fails_says_so(forks, numbers, tmp_path):
    """A folder that takes no more files, as on a full disk: the exit code is not 0, and nothing is lost."""
    folder = numbers.copy(tmp_path / "model")
    with serving(forks, folder) as server:
        server.step(numbers.rows[:2])
        shutil.move(folder / "service", tmp_path / "away")
        (folder / "service").write_text("a file where a folder should be")
        assert server.stop() == 1
        assert "not be saved" in server.stderr
    (folder / "service").unlink()
    shutil.move(tmp_path / "away", folder / "service")
    with serving(forks, folder) as server:
        assert server.client.get("/readyz").json()["rounds"] == 1


def test_a_folder_that_cannot_be_written_to_is_a_sentence(forks, numbers, tmp_path):
    folder = numbers.copy(tmp_path / "model")
    (folder / "service").write_text("")
    done = forks.run("accous", "serve", folder, "--port", "0", check=1)
    assert "a service needs" in done.stderr
    assert "Errno" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_folder_for_the_log_that_is_a_link_is_refused(numbers, tmp_path):
    """It may lead to the log of another model, which would be put aside."""
    folder, other = numbers.copy(tmp_path / "model"), tmp_path / "other"
    other.mkdir()
    (folder / "service").symlink_to(other)
    with pytest.raises(CheckpointError, match="service is a link"):
        open_owned(folder, Limits())
    assert not list(other.iterdir())


# --- what was acknowledged is known ---


def test_nothing_says_where_files_are(forks, numbers, tmp_path):
    """Neither those of the fit nor those of a run of the command line before the service."""
    folder = numbers.copy(tmp_path / "model")
    pl.DataFrame(numbers.rows[:200]).write_csv(tmp_path / "stream.csv")
    assert main(["adapt", str(folder), str(tmp_path / "stream.csv"), "-o", str(tmp_path / "p.csv"), "--quiet"]) == 0
    with serving(forks, folder) as server:
        assert server.client.get("/v1/state").json()["rounds"] > 0
        for path in (
            "/v1/state",
            "/v1/state?by=x0",
            "/v1/history",
            "/page/view",
            "/metrics",
            "/openapi.json",
            "/report",
        ):
            answer = server.client.get(path)
            assert answer.status_code == 200
            assert not any(str(each) in answer.text for each in (tmp_path, numbers.folder.parent)), path


def test_an_acknowledged_round_is_known_at_once(forks, numbers, tmp_path):
    with serving(forks, numbers.copy(tmp_path / "model")) as server:
        for number in range(1, 61):
            learned = server.step(numbers.rows[number : number + 1])
            assert learned["round"] == number
            state = server.client.get("/v1/state").json()
            assert state["rounds"] == number
            assert state["as_of_round"] <= number
        view = server.client.get("/page/view").json()
        assert (view["rounds"], view["rows"]) == (60, 60)
        server.post("/v1/labels", {"labels": [{"id": learned["ids"][0], "label": "yes"}]})
        assert server.client.get("/v1/state").json()["labelled_rows"] == 1
        metrics = server.client.get("/metrics").text.splitlines()
        assert {"accous_rounds 60.0", "accous_rows 60.0"} <= set(metrics)
        for path in ("/v1/state", "/v1/history"):
            assert server.client.get(path).json()["rounds"] == 60
