"""The search over what the paper leaves open, as a table, from ``benchmarks/results/readings.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from accous_bench.reporting.document import Block, Heading, Paragraph, Row, Table, Text
from accous_bench.reporting.wording import count

__all__ = ["readings_blocks"]


def readings_blocks(file: Path) -> list[Block]:
    """Return the section; nothing if the file does not exist."""
    if not file.is_file():
        return []
    record = json.loads(file.read_text(encoding="utf-8"))["rows"]
    readings = sorted(record["readings"], key=lambda reading: reading["distance"])
    usual, before = (_find(record["readings"], protocol) for protocol in ("predict_first", "batch_first"))
    best = max(readings, key=lambda reading: reading["order"])
    words = (
        f"What the paper leaves open, read in {len(readings)} ways (python -m benchmarks.readings: "
        f"{record['n_rounds']:,} rounds, {count(record['n_seeds'], 'seed')}, six cheap contenders in the eight "
        "synthetic cells; no KMM and no DANN). With the same data, learning first gives a rank correlation of "
        f"{_number(before['order'])} with the paper's order, predicting first {_number(usual['order'])}. The best "
        f"order has {_describe(best)} ({_number(best['order'])}), the smallest distance {_describe(readings[0])} "
        f"({readings[0]['distance']:.1f} points)."
    )
    rows = [
        Row([Text(_describe(one)), Text(f"{one['distance']:.2f}"), Text(_number(one["order"]))]) for one in readings
    ]
    caption = "Readings by their mean distance to the paper's numbers, with the mean rank correlation over the cells."
    return [
        Heading("Which reading fits the paper's numbers?", 2),
        Paragraph(words),
        Table(caption, ["reading", "distance, points", "rank correlation"], rows),
    ]


def _find(readings: list[dict[str, Any]], protocol: str) -> dict[str, Any]:
    return next(one for one in readings if one["angle"] == 75.0 and one["C"] == 1.0 and one["protocol"] == protocol)


def _describe(reading: dict[str, Any]) -> str:
    geometry = "published geometry" if reading["angle"] is None else f"angle {reading['angle']:.0f}\N{DEGREE SIGN}"
    changed = [
        *(["learning first"] if reading["protocol"] != "predict_first" else []),
        *([f"C = {reading['C']:g}"] if reading["C"] != 1.0 else []),
        *(["scaled inputs"] if reading["is_scaled"] else []),
    ]
    return ", ".join([geometry, *changed])


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "\N{MINUS SIGN}")
