"""The script behind DANN's table, at a small size."""

import numpy as np

from benchmarks.dann_steps import compare, table


def test_both_versions_play_the_same_rounds_from_the_same_network() -> None:
    rows = compare([2], seeds=[0, 1], n_rounds=8, every=4)
    assert [row["n_rows"] for row in rows] == [1000, 128]
    for row in rows:
        assert len(row["class_loss"]) == 2
    # The sample changes the steps, but it starts from the same network on the same batches.
    assert rows[0]["class_loss"] != rows[1]["class_loss"]
    assert np.allclose(rows[0]["class_loss"], rows[1]["class_loss"], rtol=0.1)


def test_the_table_gives_the_paired_difference_with_its_error() -> None:
    values = {"feature_distance": [1.0, 1.0], "error": [0.3, 0.3], "milliseconds": [5.0, 5.0]}
    rows = [
        {"batch_size": 1, "n_rows": 1000, "class_loss": [0.4, 0.5], **values},
        {"batch_size": 1, "n_rows": 128, "class_loss": [0.39, 0.47], **values},
    ]
    assert "| N_t = 1, difference | −0.0200 ± 0.0100 | +0.000 ± 0.000 | +0.00 ± 0.00 | |" in table(rows)
