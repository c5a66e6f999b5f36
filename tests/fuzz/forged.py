"""A fuzzer of the binary formats: content that nobody of ours wrote, under checksums that are right.

``python -m tests.fuzz.forged --cases 100000`` forges so many contents, in turns of each format. A reader may take one
or refuse it with an error of accous, which for states is a CheckpointError; anything else is a failure.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import resource
import sqlite3
import struct
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing, redirect_stdout, suppress
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import polars as pl

import accous
from accous.checkpoint import files
from accous.core.kernels_states import checksum
from accous.core.many_keys import N_NUMBERS
from accous.exceptions import AccousError, CheckpointError
from accous.keyed import KeyedAdapter
from accous.keyed.arrow import pack_page, unpack_page
from accous.keyed.state import _HEADER
from accous.service import log as service_log
from accous.table.model import load_table_model
from accous.table.store import SERVED, STORE_NAME, Store, StorePosition
from tests.cli.tables import make_tables
from tests.fuzz.damage import damage_bytes

__all__ = ["FORMATS", "problem_of", "seal_manifest", "seal_state"]

_MOST_MEMORY = 8 << 30
_ODD = [0.0, -1.0, 1.0, 0.5, 16.0, 255.0, 2.0**53, 1e30, -1e30, 1e99, 5e-324, float("nan"), float("inf"), -float("inf")]
_ODD_PLAIN: list[Any] = [None, True, -1, 0, 2**63, 1e308, "", "x", [], {}, {"$array": "no"}, {"$float": "nan"}, [[]]]


# --- States of keys, and pages of them


def drifting(n_rows: int, seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    X = np.random.default_rng(seed).normal(size=(n_rows, 4))
    X[:, 1] += 2.0 * np.sin(np.linspace(0.0, 4.0 * np.pi, n_rows))
    return X


@cache
def keyed_states() -> tuple[KeyedAdapter, list[bytes]]:
    """An adapter, and states with few and with many things in them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    model = accous.AdaptiveClassifier().fit(X, X[:, 0] + 0.5 * rng.normal(size=300) > 0.3)
    adapter = KeyedAdapter(model, round_size=5)
    return adapter, [adapter.step(None, drifting(803, 6)[:n_rows])[0] for n_rows in (3, 23, 153, 453, 753)]


def seal_state(content: bytes) -> bytes:
    """Put the right checksum into a state."""
    padded = content.ljust(-(-len(content) // 8) * 8, b"\0")  # none is odd, and such bytes are refused anyway
    found = checksum(np.frombuffer(padded, dtype=np.uint64))
    return content[:16] + struct.pack("<Q", found) + content[24:]


def _forge_numbers(content: bytearray, random: Random) -> None:
    kind, size = random.choice([("<d", 8), ("<d", 8), ("<f", 4), ("<i", 4)])
    n_first = N_NUMBERS if random.random() < 0.5 else (len(content) - _HEADER.size) // size
    place = _HEADER.size + size * random.randrange(min(n_first, (len(content) - _HEADER.size) // size))
    odd = [each for each in _ODD if kind == "<d" or not 1e38 < abs(each) < float("inf")]
    value = random.choice([0, -1, 3, 4, 2**31 - 1]) if kind == "<i" else random.choice(odd)
    struct.pack_into(kind, content, place, value)


def forge_state(random: Random) -> bytes:
    adapter, states = keyed_states()
    content = bytearray(random.choice(states))
    for _ in range(random.choice([1, 1, 2, 5, 20])):
        if random.random() < 0.3:
            content[6 + random.randrange(6)] = random.randrange(256)
        elif random.random() < 0.1:
            content[12:16] = struct.pack("<I", random.choice([0, 1, 3, 40, 2**31, 2**32 - 1]))
        elif random.random() < 0.7:
            _forge_numbers(content, random)
        else:
            content[random.randrange(40, len(content))] ^= 1 << random.randrange(8)
    if random.random() < 0.5:
        # As long as its header says.
        *sizes, n_waiting = _HEADER.unpack_from(content)[2:9]
        length = adapter._form.length(tuple(sizes), n_waiting)
        if length < 1 << 20:
            content = bytearray(bytes(content).ljust(length, b"\0")[:length])
    return seal_state(bytes(content))


def read_state(content: bytes, random: Random) -> None:
    adapter, _ = keyed_states()
    if random.random() < 0.2:
        adapter.readings({"key": content})
    after, _, _ = adapter.step(content, drifting(random.choice([1, 2, 9, 90]), random.randrange(9)))
    adapter.step_many({"key": after, "other": content}, ["key", "other"], None, drifting(2, 0))
    adapter.readings(adapter.observe({"key": after}, ["key"] * 2, drifting(2, 1), [True, False]))


def forge_page(random: Random) -> bytes:
    _, states = keyed_states()
    page = bytearray(pack_page({"shop": states[0], 7: states[1], "other": forge_state(random)}))
    for _ in range(random.choice([1, 2, 5])):
        place = random.choice([4, 8, 9, 13, random.randrange(4, len(page) - 4)])
        struct.pack_into("<I", page, place, random.choice([0, 1, 7, 2**31, 2**32 - 1, len(page)]))
    return bytes(page) if random.random() < 0.5 else damage_bytes(bytes(page), random, 1, is_text=False)[0]


def read_page(content: bytes, random: Random) -> None:
    adapter, _ = keyed_states()
    for key, state in unpack_page(content).items():
        try:
            adapter.step_many({key: state}, [key], None, drifting(1, random.randrange(9)))
        except CheckpointError:
            continue


# --- Folders of models: the manifest, and the arrays


@cache
def model_folder() -> dict[str, bytes]:
    """The files of a table's model that has followed a stream."""
    from accous.cli import main

    with tempfile.TemporaryDirectory() as name, redirect_stdout(io.StringIO()):
        folder = Path(name)
        reference, stream = make_tables(n_rounds=20)
        reference.write_csv(folder / "reference.csv")
        stream.write_csv(folder / "stream.csv")
        options = ["--label", "label", "--drop", "id", "--estimator", "linear", "-q"]
        assert main(["fit", f"{folder}/reference.csv", "-o", f"{folder}/model", *options]) == 0
        assert main(["adapt", f"{folder}/model", f"{folder}/stream.csv", "-o", f"{folder}/p.csv", "-q"]) == 0
        return {path.name: path.read_bytes() for path in sorted((folder / "model").iterdir())}


def seal_manifest(content: dict[str, Any]) -> bytes:
    """Return the bytes of a manifest with the right checksum."""
    content = {name: value for name, value in content.items() if name != "checksum"}
    return json.dumps({**content, "checksum": files._checksum(content)}).encode()


def _forge_plain(value: Any, random: Random) -> Any:
    """Return nested dicts and lists with something else in one place."""
    if isinstance(value, dict) and value and random.random() < 0.95:
        name = random.choice(list(value))
        if random.random() < 0.05:
            return {each: part for each, part in value.items() if each != name}
        return value | {name: _forge_plain(value[name], random)}
    if isinstance(value, list) and value and random.random() < 0.9:
        place = random.randrange(len(value))
        return [*value[:place], _forge_plain(value[place], random), *value[place + 1 :]]
    return random.choice(_ODD_PLAIN)


def forge_manifest(random: Random) -> bytes:
    content = json.loads(model_folder()["manifest.json"])
    names = ["model", "attached", *content]
    name = random.choice([each for each in names if each not in ("checksum", "format")])
    return seal_manifest(content | {name: _forge_plain(content[name], random)})


def read_manifest(content: bytes, _: Random) -> None:
    _load_with({"manifest.json": content})


def forge_arrays(random: Random) -> bytes:
    """Return a file of arrays of which one has other values, another shape, another type or another length."""
    name = random.choice([each for each in model_folder() if each.endswith(".npz")])
    with zipfile.ZipFile(io.BytesIO(model_folder()[name])) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    chosen = random.choice([*members, "skeleton.npy"])
    if chosen == "skeleton.npy" and random.random() < 0.8:
        array = np.lib.format.read_array(io.BytesIO(members[chosen]))
        text = json.dumps(_forge_plain(json.loads(array.tobytes()), random)).encode()
        members[chosen] = _member(np.frombuffer(text, dtype=np.uint8))
    else:
        members[chosen] = _forge_member(members[chosen], random)
    made = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if random.random() < 0.05 else zipfile.ZIP_STORED
    with zipfile.ZipFile(made, "w", method) as archive:
        for each, member in members.items():
            archive.writestr(each, member)
    content = made.getvalue()
    if random.random() < 0.1:
        content = damage_bytes(content, random, 1, is_text=False)[0]
    return name.partition("-")[0].encode() + b"\n" + content


def _member(array: Any) -> bytes:
    made = io.BytesIO()
    np.lib.format.write_array(made, array)
    return made.getvalue()


def _forge_member(member: bytes, random: Random) -> bytes:
    with np.errstate(all="ignore"):
        return _forge_array(member, np.lib.format.read_array(io.BytesIO(member)), random)


def _forge_array(member: bytes, array: Any, random: Random) -> bytes:
    kind = random.randrange(5)
    if kind == 0:
        # As long as before, also in its header.
        digits = random.choice([b"1000000000000", b"0", b"7", b"-1"])
        head = member[:128]
        place = head.find(b"'shape': (") + 10
        end = min(each for each in (head.find(b",", place), head.find(b")", place)) if each > 0)
        return (
            head[:place] + digits + head[end:].rstrip().ljust(128 - place - len(digits))[: 128 - place] + member[128:]
        )
    if kind == 1:
        return _member(np.resize(array, random.choice([0, 1, 2, array.size + 1, 3 * array.size])))
    if kind == 2:
        return _member(
            array.astype(random.choice(["S3", "<U2", "f4", "i8", "u1", "?"]))
            if array.dtype.kind in "biuf"
            else array[:0]
        )
    if kind == 3 and array.size and array.dtype.kind in "fiu":
        changed = array.copy()
        odd = _ODD if array.dtype.kind == "f" else [0, 1, 127]
        changed.reshape(-1)[random.randrange(array.size)] = random.choice(odd)
        return _member(changed)
    return _member(array.reshape(-1)[None, :, None] if random.random() < 0.5 else array.T)


def read_arrays(content: bytes, _: Random) -> None:
    prefix, _, content = content.partition(b"\n")
    manifest = json.loads(model_folder()["manifest.json"])
    part = prefix.decode()
    digest = hashlib.sha256(content).hexdigest()
    name = {"reference": "reference", "state": "state-20"}[part] + f"-{digest[:16]}.npz"
    manifest[part] = {"name": name, "sha256": digest, "size": len(content)}
    _load_with({name: content, "manifest.json": seal_manifest(manifest)})


def _load_with(changed: dict[str, bytes]) -> None:
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as name:
        for each, content in (model_folder() | changed).items():
            (Path(name) / each).write_bytes(content)
        load_table_model(Path(name))


# --- What a folder remembers of predictions: SQLite has no checksums, and its columns take any type


@cache
def stored_predictions() -> bytes:
    """A store with blocks of both kinds, and with single rows, asked for and labelled."""
    texts = {"key": [f"k{number}" for number in range(100)], "predicted": ["yes", "no"] * 50}
    plain = {"line": range(100), "round": [3] * 100, "source": [SERVED] * 100, "scores": [b"12345678"] * 100}
    rows = pl.DataFrame({"id": range(2, 202, 2), **plain, **texts, "features": ['{"x":1}'] * 100})
    numbers = rows.select(pl.struct(x="line", c="predicted").cast(pl.Struct({"x": pl.Float64, "c": pl.String})))
    with tempfile.TemporaryDirectory() as name:
        with Store.open(Path(name), StorePosition(), start=0) as store:
            store.add_predictions(rows[:9], learned=True)
            store.mark_asked([2, 4], [0.5, 0.5])
            for label in ("yes", "no"):
                labels = pl.DataFrame({"place": ["k1", "k2"], "label": [label] * 2})
                store.set_labels(store.join(labels, by="key"))
            later = rows.with_columns(pl.col("id") + 1_000)
            store.add_predictions(later, learned=True)
            later = rows.with_columns(pl.col("id") + 2_000, features=numbers.to_series())
            store.add_predictions(later, learned=False)
        return (Path(name) / STORE_NAME).read_bytes()


def forge_store(random: Random) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / STORE_NAME
        path.write_bytes(stored_predictions())
        with closing(sqlite3.connect(path)) as connection:
            for _ in range(random.choice([1, 1, 2, 5])):
                table = random.choice(["blocks", "predictions"])
                columns = [column for _, column, *_ in connection.execute(f"PRAGMA table_info({table})")]
                column, number = random.choice(columns), random.randrange(9)
                query = f"FROM {table} ORDER BY 1 LIMIT 1 OFFSET {number % 2 if table == 'blocks' else number}"
                found = connection.execute(f"SELECT {column}, {columns[0]} {query}").fetchone()
                if found is None:
                    continue
                with suppress(sqlite3.Error):  # a key is a whole number, and some must not be null
                    statement = f"UPDATE {table} SET {column} = ? WHERE {columns[0]} = ?"
                    connection.execute(statement, (_forge_value(found[0], random), found[1]))
            connection.commit()
        content = path.read_bytes()
    return damage_bytes(content, random, 1, is_text=False)[0] if random.random() < 0.1 else content


def _forge_value(value: Any, random: Random) -> Any:
    odd = [
        None,
        0,
        -1,
        9.5,
        2**63 - 1,
        -(2**63),
        1e300,
        "",
        "x",
        b"",
        b"\0" * 8,
        "[" * 200_000,
        "[1, 2]",
        '{"x": []}',
        "\0",
    ]
    if isinstance(value, str | bytes) and value and random.random() < 0.5:
        content = value.encode() if isinstance(value, str) else value
        damaged = damage_bytes(content, random, 1, is_text=isinstance(value, str))[0]
        return damaged.decode("utf-8", "replace") if isinstance(value, str) else damaged
    return random.choice(odd)


def read_store(content: bytes, random: Random) -> None:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / STORE_NAME).write_bytes(content)
        position = StorePosition(last_id=random.choice([2_200, 1_100]), n_batches=random.choice([2, 1]))
        with Store.open(Path(name), position, start=0) as store:
            labels = pl.DataFrame({"place": ["2", "k1", "k7", "1002"], "label": ["yes"] * 4})
            uses = [
                store.sources, store.next_id, store.labelled, store.undo_last, store.prune,
                partial(store.served_since, 0), partial(store.settled, "key", None), partial(store.repeated_key, 0),
                partial(store.mark_asked, [6], [0.5]),
                *(partial(store.join, labels, by=by, source=SERVED) for by in ("key", "id", "line")),
                lambda: store.set_labels(store.join(labels, by="key")),
            ]  # fmt: skip
            for use in random.sample(uses, 4):
                use()


# --- What a service keeps


def forge_log(random: Random) -> bytes:
    name = random.randbytes(16)
    head = service_log._MAGIC + service_log._HEAD.pack(name, random.choice([0, 3, 2**63]))
    content = head + service_log._check(head)
    n_before = service_log._HEAD.unpack_from(head, len(service_log._MAGIC))[1]
    for _ in range(random.randrange(4)):
        payload = _forge_packed([["adapt", "text/csv", b"x1\n1\n", {}, False, None, b""]], random)
        group = service_log._GROUP.pack(name, len(payload), n_before)
        content += group + service_log._check(group, payload, name=name.hex()) + payload
        n_before += 1
    return content + random.randbytes(random.choice([0, 0, 5, 60]))


def read_log(content: bytes, _: Random) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "batches.log"
        path.write_bytes(content)
        service_log.count_records(path)
        service_log.open_log(path)[0].close()


def _forge_packed(value: Any, random: Random) -> bytes:
    if random.random() < 0.5:
        return msgspec.msgpack.encode(value)
    if random.random() < 0.5:
        return msgspec.msgpack.encode(_forge_plain(value, random))
    packed = damage_bytes(msgspec.msgpack.encode(value), random, 1, is_text=False)[0]
    return random.choice([packed, b"\x91" * 200_000, b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"])


def forge_idempotency(random: Random) -> bytes:
    store = ["log", [["key", [b"digest", 200, b"{}"]]]]
    body = _forge_packed(store, random)
    return service_log._STORE_MAGIC + hashlib.sha256(body).digest() + body


def read_idempotency(content: bytes, _: Random) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "idempotency.bin"
        path.write_bytes(content)
        service_log.load_idempotency(path, "log")


# --- Running


FORMATS: dict[str, tuple[Callable[[Random], bytes], Callable[[bytes, Random], None]]] = {
    "state": (forge_state, read_state),
    "page": (forge_page, read_page),
    "arrays": (forge_arrays, read_arrays),
    "manifest": (forge_manifest, read_manifest),
    "log": (forge_log, read_log),
    "idempotency": (forge_idempotency, read_idempotency),
    "store": (forge_store, read_store),
}


def problem_of(name: str, seed: int, number: int) -> str | None:
    """Read forged content, always the same for a number; return what went wrong, or None."""
    forge, read = FORMATS[name]
    random = Random(f"{name}/{seed}/{number}")
    content = forge(random)
    try:
        with warnings.catch_warnings():
            # numpy warns of headers that Python 2 may have written.
            warnings.filterwarnings("ignore", message="Reading .* required additional header parsing")
            read(content, random)
    except AccousError as error:
        # The parameters that a folder names are checked as those of any caller are.
        if name in ("state", "page") and not isinstance(error, CheckpointError):
            return traceback.format_exc()
        if isinstance(error.__cause__, MemoryError):
            return traceback.format_exc()
        return None if len(str(error)) < 2000 else f"a message of {len(str(error))} characters"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return traceback.format_exc()
    return None


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.forged", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", choices=FORMATS, help="only this one")
    asked = parser.parse_args()
    warnings.simplefilter("error")
    # What asks for more than this fails here, and not by the hand of the system, without a word.
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, resource.RLIM_INFINITY))
    names = [asked.format] if asked.format else list(FORMATS)
    failed = Counter[str]()
    for number in range(asked.cases):
        name = names[number % len(names)]
        problem = problem_of(name, asked.seed, number)
        if problem is not None:
            failed[name] += 1
            if failed[name] <= 5:
                print(f"\n{name}, case {number} of seed {asked.seed}:\n{problem[-1500:]}", flush=True)
    print(f"{asked.cases:,} forged contents of seed {asked.seed}: {failed.total()} failed {dict(failed) or ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(_main())
