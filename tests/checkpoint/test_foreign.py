"""What a folder records about the user's objects is enough to tell others from them."""

import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler
from sklearn.tree import DecisionTreeClassifier

from accous.checkpoint.folder import describe_foreign, require_foreign
from accous.exceptions import CheckpointError


def make_long_pipeline(last_depth: int):
    steps = [MinMaxScaler(feature_range=(0.123456789, 1.0 + number)) for number in range(30)]
    return make_pipeline(*steps, DecisionTreeClassifier(max_depth=last_depth))


def test_a_parameter_that_is_not_printed_counts_too():
    wanted = {"estimator": describe_foreign(make_long_pipeline(3))}
    # scikit-learn leaves out the middle of what it prints.
    assert "..." in wanted["estimator"]["repr"]
    require_foreign(wanted, {"estimator": make_long_pipeline(3)})
    other = make_long_pipeline(3)
    other.steps[15][1].set_params(clip=True)
    assert describe_foreign(other)["repr"] == wanted["estimator"]["repr"]
    with pytest.raises(CheckpointError, match="same class and parameters"):
        require_foreign(wanted, {"estimator": other})


def test_folders_without_the_checksum_are_compared_by_what_is_printed():
    description = describe_foreign(DecisionTreeClassifier(max_depth=3))
    del description["parameters"]
    require_foreign({"estimator": description}, {"estimator": DecisionTreeClassifier(max_depth=3)})
    with pytest.raises(CheckpointError):
        require_foreign({"estimator": description}, {"estimator": DecisionTreeClassifier(max_depth=4)})


def test_addresses_in_memory_do_not_count():
    one, other = (FunctionTransformer(lambda rows: rows) for _ in range(2))
    assert describe_foreign(one) == describe_foreign(other)
