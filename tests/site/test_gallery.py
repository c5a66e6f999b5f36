"""The gallery says what was measured, and its pictures are those of the results that are kept."""

import pytest

from benchmarks import gallery, pages


@pytest.mark.parametrize("name", gallery.CASES)
def test_every_case_is_whole(name):
    case = pages.kept("gallery")[name]
    assert set(case["errors"]) == set(gallery.MODELS)
    assert len(case["looks"]) == case["rows"] // gallery.BLOCK
    for look in case["looks"]:
        for said in look["said"].values():
            assert 0.0 <= said["low"] <= said["value"] <= said["high"] <= 1.0
            assert said["state"] in ("healthy", "degraded", "uncertain")


def test_labels_recover_weights_gain_and_weights_that_would_hurt_are_held_back():
    errors = {name: pages.kept("gallery")[name]["errors"] for name in gallery.CASES}
    assert errors["hotel_bookings"]["labels"] < errors["hotel_bookings"]["fixed"] - 0.03
    assert errors["arabic_digits"]["weights"] < errors["arabic_digits"]["fixed"] - 0.005
    taxi = errors["chicago_taxi_tips"]
    assert taxi["always"] > taxi["fixed"] + 0.002
    assert max(taxi["weights"], taxi["labels"]) < taxi["fixed"] + 0.001


@pytest.mark.parametrize("name", gallery.CASES)
def test_pictures_are_those_of_what_is_kept(name, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "IMAGES", tmp_path)
    pages.save_pair(lambda palette: gallery.draw_case(name, palette), f"gallery-{name.replace('_', '-')}")
    for path in tmp_path.glob("*.svg"):
        kept = pages.DOCS / "images" / path.name
        assert len(path.read_text()) == pytest.approx(len(kept.read_text()), rel=0.01)
