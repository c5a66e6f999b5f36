"""The cache is where it was when pooch named it, so that nothing is downloaded twice."""

from pathlib import Path

import pooch
import pytest

from accous.datasets.loaders import user_cache_folder


@pytest.mark.parametrize("xdg", [None, "", "/somewhere/else"])
def test_the_folder_is_the_one_that_pooch_names(xdg, monkeypatch):
    monkeypatch.delenv("ACCOUS_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if xdg is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    assert user_cache_folder() == Path(pooch.os_cache("accous"))


def test_a_variable_names_another(monkeypatch):
    monkeypatch.setenv("ACCOUS_CACHE", "/my/cache")
    assert user_cache_folder() == Path("/my/cache")
