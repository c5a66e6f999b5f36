"""Small bodies that stand for large tables are refused before they become large."""

import contextlib
import gzip
import io
import json
import struct
from pathlib import Path

import polars as pl
import pytest

from accous.service.bodies import (
    HttpError,
    Limits,
    RowsBody,
    decode_json,
    decode_rows,
    require_arrow_size,
    require_csv,
    unpack,
)
from tests.service.servers import JSON, serving

LIMITS = Limits(rows=20, columns=10, body_bytes=100_000)
STREAM = "application/vnd.apache.arrow.stream"


def arrow(frame: pl.DataFrame, packing: str = "uncompressed") -> bytes:
    content = io.BytesIO()
    frame.write_ipc_stream(content, compression=packing)
    return content.getvalue()


def code_of(check, *arguments, **named) -> str:
    with pytest.raises(HttpError) as refused:
        check(*arguments, **named)
    return refused.value.code


def test_arrow_is_measured_by_its_heads():
    texts = pl.Series("c", ["a", None, "long" * 9] * 6).cast(pl.Categorical)
    wide = {f"x{number}": [0.5] * 18 for number in range(7)}
    frame = pl.DataFrame({"a": [1, None, 3] * 6, "b": [[1.0, 2.0]] * 18, "c": texts} | wide)
    require_arrow_size(arrow(frame), LIMITS)
    require_arrow_size(arrow(frame.clear()), LIMITS)
    assert code_of(require_arrow_size, arrow(pl.concat([frame, frame])), LIMITS) == "too_many_rows"
    more = frame.with_columns(pl.lit(1).alias("one more"))
    assert code_of(require_arrow_size, arrow(more), LIMITS) == "too_many_columns"
    heavy = frame.with_columns(pl.Series("a", [f"{number}" * 9_000 for number in range(18)]))
    assert code_of(require_arrow_size, arrow(heavy), LIMITS) == "too_large"
    nested = pl.DataFrame({"a": [[0] * 200_000]}, schema={"a": pl.List(pl.Int8)})
    assert code_of(require_arrow_size, arrow(nested), LIMITS) == "too_large"
    for packing in ("lz4", "zstd"):
        assert code_of(require_arrow_size, arrow(heavy, packing), LIMITS) == "unsupported_encoding"


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_rows_that_share_a_long_text_are_measured_as_if_they_did_not(kind):
    """Two megabytes as a body, and two gigabytes once each row has a text of its own."""
    texts = pl.Series("a", ["x" * 2_000_000]).gather([0] * 1_000).cast(kind)
    content = arrow(pl.DataFrame({"a": texts}))
    assert len(content) < 3_000_000
    assert code_of(decode_rows, content, STREAM, Limits()) == "too_large"


def test_pieces_of_a_stream_are_measured_together():
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")
    content = io.BytesIO()
    table = pyarrow.table({"a": [1.0] * 8})
    with pyarrow.ipc.new_stream(content, table.schema) as writer:
        for _ in range(2):
            writer.write_table(table)
    whole = content.getvalue()
    require_arrow_size(whole, LIMITS)
    assert code_of(require_arrow_size, whole, Limits(rows=15)) == "too_many_rows"


def measure(content: bytes) -> None:
    """Measure what may be damaged: nothing but a refusal may come of it."""
    with contextlib.suppress(HttpError):
        require_arrow_size(content, LIMITS)


def test_headers_that_are_damaged_are_refused_and_nothing_else_happens():
    content = arrow(pl.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))
    for place in range(len(content)):
        for bit in (0x01, 0xFF):
            damaged = bytearray(content)
            damaged[place] ^= bit
            measure(bytes(damaged))
    for length in range(len(content)):
        measure(content[:length])


def test_json_is_measured_by_its_commas_and_brackets():
    def check(content: object) -> None:
        decode_json(json.dumps(content).encode(), RowsBody, Limits(rows=20, columns=10, values=200))

    check({"rows": [{f"c{number}": 1 for number in range(9)}] * 19})
    check({"rows": [{"a": "{,[" * 50}]})
    assert code_of(check, {"rows": [{f"c{number}": 1 for number in range(9)}] * 23}) == "too_many_rows"
    assert code_of(check, {"rows": [{}] * 101}) == "too_many_rows"
    assert code_of(check, {"rows": [{"a": [1] * 201}]}) == "too_many_rows"


def test_csv_is_measured_by_its_lines_outside_of_texts():
    require_csv(b"a,b\n" + b"1,2\n" * 20, LIMITS)
    require_csv(b"a,b\n" + b"1,2\n" * 19 + b"1,2", LIMITS)
    require_csv(b'"a,a,a,a,a,a,a,a,a,a,a,a",b\n' + b'"1\n\n""\n",2\n' * 20, LIMITS)
    assert code_of(require_csv, b"a,b\n" + b"1,2\n" * 21, LIMITS) == "too_many_rows"
    assert code_of(require_csv, b"a\n" + b"\n" * 21, LIMITS) == "too_many_rows"
    assert code_of(require_csv, b"a,b,c,d,e,f,g,h,i,j,k\n", LIMITS) == "too_many_columns"
    assert code_of(require_csv, b"a\n" + b"," * 2_000_000, Limits()) == "too_many_rows"


def test_packed_bodies_are_unpacked_up_to_the_limit():
    assert unpack(gzip.compress(b"x" * 1_000), 1_000) == b"x" * 1_000
    assert code_of(unpack, gzip.compress(b"x" * 1_001), 1_000) == "too_large"
    for wrong in (b"", b"plain", gzip.compress(b"x")[:-3], gzip.compress(b"x") * 2):
        assert code_of(unpack, wrong, 1_000) == "malformed_encoding"


def peak(pid: int) -> float:
    """The most memory that a process ever had, in megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc: run the tests on Linux")
def test_bombs_take_no_memory(forks, model, numbers):
    """A few kilobytes that would be a hundred megabytes, over every door."""
    zeros = pl.DataFrame({"x0": pl.repeat(0.0, 12_000_000, eager=True)})
    wide_split = {"dataframe_split": {"columns": [f"c{n}" for n in range(5_000)], "data": [[0] * 5_000]}}
    wide_inputs = {"inputs": {f"c{number}": [1.0] for number in range(5_000)}}
    tensors = [{"name": f"c{number}", "shape": [1], "datatype": "FP64", "data": [1]} for number in range(5_000)]
    bombs = [
        ("/v1/predict", STREAM, arrow(zeros)),
        ("/v1/predict", "application/json", b'{"rows":[' + b"{}," * 1_500_000 + b"{}]}"),
        (
            "/v1/labels",
            "application/json",
            b'{"labels":[' + b'{"label":1,"key":1},' * 300_000 + b'{"label":1,"key":1}]}',
        ),
        ("/invocations", "application/json", b'{"instances":[' + b"[]," * 1_500_000 + b"[]]}"),
        ("/v1/predict", "text/csv", b",".join(b"c%d" % n for n in range(4_000)) + b"\n" + b"\n" * 9_000),
        ("/invocations", "text/csv", b",".join(b"c%d" % n for n in range(20_000)) + b"\n"),
        ("/invocations", "application/json", json.dumps(wide_split).encode()),
        ("/invocations", "application/json", json.dumps(wide_inputs).encode()),
        ("/v2/models/model/infer", "application/json", json.dumps({"inputs": tensors}).encode()),
    ]
    with serving(forks, model) as server:
        server.post("/v1/predict", {"rows": numbers.rows[:2]})
        before = peak(server.process.pid)
        for path, kind, body in bombs:
            for content, packed in ((body, {}), (gzip.compress(body, 1), {"content-encoding": "gzip"})):
                answer = server.client.post(path, content=content, headers={"content-type": kind} | packed)
                assert answer.status_code in (400, 413), (path, kind, answer.text)
        answer = server.client.post("/v1/step", content=arrow(zeros, "zstd"), headers={"content-type": STREAM})
        assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_encoding")
        body = gzip.compress(bytes(100 << 20), 1)
        answer = server.client.post("/v1/predict", content=body, headers=JSON | {"content-encoding": "gzip"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
        answer = server.client.post("/v1/predict", content=b"", headers=JSON | {"content-encoding": "br"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_encoding")
        # A body itself may have 16 MB, and is there a few times while it arrives and is unpacked.
        assert peak(server.process.pid) - before < 72


def test_what_was_accepted_counts_after_a_start_with_lower_limits(forks, model, numbers):
    with serving(forks, model) as server:
        server.step(numbers.rows[:30])
        server.kill()
    with serving(forks, model, "--max-rows", "10") as server:
        assert server.client.get("/readyz").json()["rounds"] == 1


def test_lengths_that_lie_are_not_followed():
    """A length below zero, or beyond the end, ends the reading of headers."""
    content = bytearray(arrow(pl.DataFrame({"a": [1.0]})))
    size = struct.unpack_from("<I", content, 4)[0]
    for lie in (0x7FFFFFF0, 0xFFFFFFF0):
        damaged = bytearray(content)
        struct.pack_into("<I", damaged, 8 + size + 4, lie)
        measure(bytes(damaged))
