"""Exactly once: kills of driver, JVM and workers at random moments change nothing that a reader sees."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import accous
from tests.needs import needs_spark
from tests.spark.rows import assert_same, fitted_model, write_rows
from tests.spark.sink import n_committed, read_sink

pytestmark = [needs_spark, pytest.mark.slow]

N_KILLS = int(os.environ.get("ACCOUS_KILLS", "3"))
PATIENCE = 1200.0
ROOT = Path(__file__).resolve().parents[2]


def start(folder, log):
    command = [sys.executable, "-m", "tests.spark.stream_driver", str(folder)]
    # In a session of its own, so that all of its processes can be found and none survives.
    with log.open("ab") as output:
        return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)


def wait_for_moment(driver, folder, rng):
    """Wait for a random moment in one of the next micro-batches, however long the machine takes for them."""
    n_batches = n_committed(folder / "checkpoint") + int(rng.integers(3))
    moment, deadline = float(rng.uniform(0.0, 4.0)), time.monotonic() + PATIENCE
    while not (folder / "started").exists() or n_committed(folder / "checkpoint") < n_batches:
        if driver.poll() is not None:
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with contextlib.suppress(subprocess.TimeoutExpired):
        driver.wait(timeout=moment)


def kill_one(driver, rng):
    """Kill the driver, its JVM or one of the Python workers, then end the rest; None if it was over before."""
    import psutil

    kind, found = str(rng.choice(["driver", "JVM", "worker"])), []
    while not found and driver.poll() is None:
        # Workers come with the first task.
        with contextlib.suppress(psutil.Error):
            family = psutil.Process(driver.pid).children(recursive=True)
            jvms = [each for each in family if each.name().startswith("java")]
            workers = [each for each in family if each.name().startswith(("python", "pyspark"))]
            found = {"driver": [psutil.Process(driver.pid)], "JVM": jvms, "worker": workers}[kind]
    try:
        if found:
            found[int(rng.integers(len(found)))].send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        found = []
    if kind == "worker":
        # Spark notices, gives up on the query, and the driver ends; or the worker was idle, and nothing happens.
        with contextlib.suppress(subprocess.TimeoutExpired):
            driver.wait(timeout=20.0)
    for each in psutil.process_iter():
        try:
            if os.getsid(each.pid) == driver.pid:
                each.send_signal(signal.SIGKILL)
        except (psutil.Error, ProcessLookupError, PermissionError):
            continue
    driver.wait(timeout=PATIENCE)
    return kind if found else None


def test_kills_at_random_moments(tmp_path):
    n_files, few = 8, {"n_keys": 40, "rows_per_key": 12}
    rows = write_rows(tmp_path / "in", n_files=n_files, **few)
    accous.save(fitted_model(), tmp_path / "model")
    rng, n_killed, n_started = np.random.default_rng(int(os.environ.get("ACCOUS_SEED", "0"))), 0, 0
    while n_killed < N_KILLS:
        if n_committed(tmp_path / "checkpoint") >= n_files - 3:
            # Rows for the next kills: it should not have read everything before they come.
            more = write_rows(tmp_path / "in", n_files=6, first=n_files, **few)
            rows, n_files = pd.concat([rows, more], ignore_index=True), n_files + 6
        (tmp_path / "started").unlink(missing_ok=True)
        driver, n_started = start(tmp_path, tmp_path / "log"), n_started + 1
        assert n_started <= 2 * N_KILLS + 5, "most streams were over before the kill came"
        wait_for_moment(driver, tmp_path, rng)
        kind = kill_one(driver, rng) if driver.poll() is None else None
        assert kind or driver.returncode == 0, (tmp_path / "log").read_text()[-3000:]
        n_killed += kind is not None
        print(f"kill {n_killed} of {N_KILLS}: {kind}, {n_committed(tmp_path / 'checkpoint')} micro-batches", flush=True)
    assert n_killed == N_KILLS
    driver = start(tmp_path, tmp_path / "log")
    assert driver.wait(timeout=PATIENCE) == 0, (tmp_path / "log").read_text()[-3000:]
    assert_same(read_sink(tmp_path / "out"), rows)
