"""Encoded features folded back: trees see categories as categories and missing values as missing."""

import numpy as np
import polars as pl

from accous.table.columns import Choices, ColumnEncoder, PlainColumns, is_category


def make_frame(n_rows: int = 200) -> pl.DataFrame:
    random = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "size": [None if row % 7 == 0 else float(row % 11) for row in range(n_rows)],
            "colour": random.choice(["red", "blue", "green"], n_rows),
            "weight": random.normal(size=n_rows),
            "maker": [None if row % 9 == 0 else f"m{row % 4}" for row in range(n_rows)],
            "day": [f"2024-{1 + row // 20:02d}-{1 + row % 20:02d}" for row in range(n_rows)],
        }
    )


def test_every_column_is_one_again_and_what_was_missing_is_missing():
    frame = make_frame()
    encoder = ColumnEncoder.learn(frame, Choices())
    plain = PlainColumns(encoder.blocks).fit_transform(encoder.encode(frame).X)
    n_date = len(encoder.feature_names) - (2 + 3 + 1 + 5)
    assert plain.shape == (200, 4 + n_date)
    np.testing.assert_array_equal(np.isnan(plain[:, 0]), frame["size"].is_null().to_numpy())
    size = frame["size"].fill_null(0.0).to_numpy()
    there = ~np.isnan(plain[:, 0])
    # A number keeps its order.
    assert np.corrcoef(plain[there, 0], size[there])[0, 1] > 0.999999
    for column, name in ((1, "colour"), (3, "maker")):
        codes = plain[:, column]
        texts = frame[name].fill_null("(missing)").to_numpy()
        # One code for each level, missing ones included, and one level for each code.
        assert (
            len({*zip(codes.tolist(), texts.tolist(), strict=True)}) == len({*texts.tolist()}) == len({*codes.tolist()})
        )
    assert is_category(encoder.blocks) == [False, True, False, True] + [False] * n_date


def test_a_category_that_the_reference_does_not_have_is_missing():
    frame = make_frame()
    encoder = ColumnEncoder.learn(frame, Choices())
    new = frame[:3].with_columns(pl.lit("violet").alias("colour"))
    assert np.isnan(PlainColumns(encoder.blocks).fit_transform(encoder.encode(new).X)[:, 1]).all()


def test_numbers_alone_are_passed_on():
    X = np.arange(6.0).reshape(3, 2)
    assert PlainColumns((("numbers", 1), ("numbers", 1))).fit_transform(X) is X
