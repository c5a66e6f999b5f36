"""The picture of ``accous demo`` for light and for dark pages: ``python -m benchmarks.demo_pictures``."""

from __future__ import annotations

from pathlib import Path

from accous.cli.demo import DARK, LIGHT, draw_race, make_stream, run_race

__all__ = ["main"]

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def main() -> None:
    """Play the demo once, with its own settings, and draw it twice."""
    race = run_race(make_stream("squ", n_rounds=3000, batch_size=1, seed=0))
    for name, look in (("demo", LIGHT), ("demo-dark", DARK)):
        (IMAGES / f"{name}.png").write_bytes(draw_race(race, "png", look))


if __name__ == "__main__":
    main()
