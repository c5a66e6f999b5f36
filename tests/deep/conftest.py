"""One torch thread for the tests' own computations: on a busy machine more of them wait for each other."""

import sys

import pytest


@pytest.fixture(autouse=True)
def one_torch_thread():
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
