"""The site, built once for each process that runs tests of it."""

from pathlib import Path

import pytest

from tests.forks import ForkServer
from tests.site.building import build_site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, forks: ForkServer) -> Path:
    pytest.importorskip("sphinx", reason="needs sphinx: pip install 'accous[docs]'")
    return build_site(tmp_path_factory.mktemp("docs"), forks)
