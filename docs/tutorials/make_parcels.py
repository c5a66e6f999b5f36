"""Write the tables of the tutorials: parcels, and whether they arrived late.

Two kinds of tours have different reasons to be late. In the city it is the traffic of the afternoon, and long tours use
the motorway. In the mountains it is the ice of the morning, and long tours are late. The reasons never change; the
share of mountain tours does.
"""

import csv
from datetime import date, timedelta
from pathlib import Path

import numpy as np

PER_DAY = 25
COLUMNS = ("parcel", "day", "region", "distance_km", "start_hour", "weight_kg", "carrier", "late")


def mountain_share(day: int) -> float:
    """Return the share of mountain tours: one in five, until the season begins on day 80; then up to four in five."""
    return 0.2 if day < 80 else min(0.8, 0.2 + 0.02 * (day - 80))


def draw(rng: np.random.Generator, share: float) -> tuple[str, float, float, float, str, str]:
    """Draw one parcel."""
    is_mountain = rng.uniform() < share
    distance = rng.gamma(4.0, 9.0 if is_mountain else 5.0)
    hour = rng.uniform(6.0, 20.0)
    weight = rng.gamma(2.0, 2.0)
    carrier = str(rng.choice(["blue", "green", "red"]))
    if is_mountain:
        score = 0.06 * (distance - 36.0) - 0.45 * (hour - 12.0)
    else:
        score = -0.06 * (distance - 20.0) + 0.45 * (hour - 14.0)
    late = rng.uniform() < 1.0 / (1.0 + np.exp(-score))
    return ("mountain" if is_mountain else "city"), distance, hour, weight, carrier, ("yes" if late else "no")


def main() -> None:
    """Write reference.csv, the stream without labels, and its labels."""
    rng = np.random.default_rng(7)
    write("reference.csv", COLUMNS, draw_days(rng, range(60)))
    rows = draw_days(rng, range(60, 180))
    write("stream.csv", COLUMNS[:-1], [row[:-1] for row in rows])
    write("stream_labels.csv", ("parcel", "late"), [(row[0], row[-1]) for row in rows])


def draw_days(rng: np.random.Generator, days: range) -> list[tuple[str, ...]]:
    """Draw the parcels of some days."""
    rows = []
    for day in days:
        for number in range(PER_DAY):
            region, distance, hour, weight, carrier, late = draw(rng, mountain_share(day))
            key = f"P{day * PER_DAY + number + 1:05}"
            cells = (region, f"{distance:.1f}", f"{hour:.1f}", f"{weight:.2f}", carrier, late)
            rows.append((key, (date(2026, 1, 1) + timedelta(day)).isoformat(), *cells))
    return rows


def write(name: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Write a CSV file."""
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
    print(f"{name}: {len(rows)} parcels")


if __name__ == "__main__":
    main()
