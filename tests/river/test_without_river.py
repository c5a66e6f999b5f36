"""Without river, `accous.river` says what to install."""

from tests.forks import ForkServer

CODE = """
import sys
class NoRiver:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "river":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NoRiver)
import accous
from accous.exceptions import MissingExtraError
try:
    accous.river
except MissingExtraError as error:
    print(error)
"""


def test_the_error_says_what_to_install(library_forks: ForkServer) -> None:
    run = library_forks.run(CODE, kind="code")
    assert run.stdout == "accous.river needs river, which is not installed: pip install 'accous[river]' adds it.\n"
