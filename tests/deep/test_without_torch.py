"""Without PyTorch the package and `accous.deep` load, and using the deep part says what to install."""

# None in sys.modules would do for our own imports, but scipy looks there for torch's classes.
CODE = """
import sys
assert "torch" not in sys.modules
from importlib.abc import MetaPathFinder

class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "PIL", "efficientnet_lite_pytorch"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())

import numpy as np
from sklearn.base import clone
import accous
from accous.exceptions import MissingExtraError

print(dir(accous.deep))
images = np.zeros((4, 8, 8), dtype=np.uint8)
for use in (clone(accous.deep.BackboneFeatures(n_jobs=1)).fit, accous.deep.embeddings_of):
    try:
        use(images)
    except MissingExtraError as error:
        print(error.name, "|", error)

rng = np.random.default_rng(0)
embeddings, y = rng.normal(size=(40, 3)), np.arange(40) % 2
print(accous.AdaptiveClassifier(random_state=0).fit(embeddings, y).adapt(embeddings[:5]).predict(embeddings[:5]).shape)
"""


def test_without_torch_all_else_works_and_the_deep_part_says_what_to_install(library_forks):
    done = library_forks.run(CODE, kind="code")
    names, *told, shape = done.stdout.splitlines()
    assert (names, shape) == ("['BackboneFeatures', 'embeddings_of']", "(5,)")
    assert [each.startswith("torch | ") and "accous[deep]" in each for each in told] == [True, True]
