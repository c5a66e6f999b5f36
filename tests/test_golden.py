"""The golden set: what users see today, recorded, so that a refactoring can prove that nothing of it changes.

``tests/golden/NAME.json.gz`` holds what the case NAME gave when it was made. ``tests/golden/folders`` holds saved
models, which have to load and go on. On the processor and with the libraries that it was made with, every bit has to be
equal. Elsewhere numbers may differ a little, also those inside of texts, and digests are not compared.

``python -m tests.test_golden`` makes it again, and ``python -m tests.test_golden NAME ...`` makes some cases again.
"""

import dataclasses
import fcntl
import gzip
import hashlib
import io
import json
import logging
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from functools import cached_property
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import accous
from accous import AdaptiveClassifier, AdaptiveRegressor, OnlineDensityRatio, SingleLearnerRatio
from accous.cli import main
from accous.keyed import KeyedAdapter, adapt_folder, fleet
from accous.report.page import render_fleet  # the one name that is not public: no command but `spark` makes this page
from accous.streams import GaussianRegressionStream, GaussianStream, SquareShift

# What is read of models. A name that changes is changed here, and in what was recorded with it.
READINGS = (
    *("n_rounds_", "n_refits_", "effective_sample_size_", "reference_weight_", "risk_estimate_", "risk_", "trust_"),
    *("coverage_", "latest_coverage_", "drift_events_", "drift_attribution_", "regimes_", "history_"),
    *("history_in_use_", "measured_", "backtest_", "unverified_", "labels_", "targets_"),
)
TABLE_READINGS = (
    *("risk_", "trust_", "measured_", "coverage_", "drift_attribution_", "drift_events_", "seasonal_events_"),
    *("regimes_", "history_", "backtest_", "settings", "label"),
)
RATIO_READINGS = (
    *("reference_ratio_", "coef_", "learner_lengths_", "learner_weights_", "learner_coefs_", "candidate_shares_"),
    *(
        "n_rounds_",
        "n_out_of_bound_",
        "n_gradient_rows_",
        "feature_bound_",
        "radius_",
        "step_size_",
        "width_",
        "ridge_",
    ),
)
PREDICTING = ("predict", "predict_fixed", "predict_proba", "decision_function", "predict_set", "predict_interval")
ENDPOINTS = ("/v1/state", "/v1/trust", "/v1/history", "/page/view", "/v2", "/readyz", "/healthz")

HERE = Path(__file__).parent / "golden"
FOLDERS = HERE / "folders"
PLACE = Path("/tmp/accous-golden")
MAKE = "ACCOUS_GOLDEN_MAKE"
RTOL, ATOL, N_SAMPLED = 1e-5, 1e-7, 24
# It counts pairs of rows whose scores are in order: the last bit decides those that are equal.
COUNTED, COUNTED_TOL = "drift_strength", 1e-3
CASES: dict[str, Callable[[Path], Any]] = {}


def case(function: Callable[[Path], Any]) -> Callable[[Path], Any]:
    CASES[function.__name__] = function
    return function


# --- the machine ------------------------------------------------------------------------------------------------------


def fingerprint() -> dict[str, Any]:
    """What the bits of a result may depend on."""
    import llvmlite
    import numba
    import scipy
    import sklearn
    from llvmlite.binding import get_host_cpu_name
    from threadpoolctl import threadpool_info

    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    modules = (np, scipy, sklearn, numba, llvmlite, pd, pl)
    return {
        "processor": next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown"),
        "blas": sorted({str(each.get("architecture")) for each in threadpool_info() if each["user_api"] == "blas"}),
        "numba": numba.config.CPU_NAME or get_host_cpu_name(),
        "simd": str(np.show_config("dicts")["SIMD Extensions"]),
        "versions": [f"{module.__name__} {module.__version__}" for module in modules],
        "python": sys.version.split()[0],
    }


def same_machine() -> bool:
    return json.loads((HERE / "machine.json").read_text()) == json.loads(json.dumps(fingerprint()))


# --- values as JSON ---------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:  # noqa: PLR0911
    """Turn what the package returns into JSON: fields, properties, what ``print`` shows and what a notebook shows."""
    if value is None or (isinstance(value, bool | int | str | float) and not isinstance(value, np.generic)):
        return value
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        return plain_array(value)
    if isinstance(value, bytes):
        return {"bytes": len(value), "sha256": hashlib.sha256(value).hexdigest()}
    if isinstance(value, pd.DataFrame):
        value = value.reset_index()
        return {"print": str(value.dtypes), "columns": {str(name): plain(value[name].to_numpy()) for name in value}}
    if isinstance(value, pl.DataFrame):
        return {"print": str(value.schema), "columns": {name: plain(value[name].to_list()) for name in value.columns}}
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if hasattr(value, "_fields"):
        return {"print": str(value), **{name: plain(getattr(value, name)) for name in value._fields}}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    return plain_object(value)


def plain_object(value: Any) -> dict[str, Any]:
    kind = type(value)
    if not kind.__module__.startswith("accous"):
        return {"print": str(value)}
    names = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    names += [name for name in dir(kind) if isinstance(getattr(kind, name), property | cached_property)]
    found = {name: plain(getattr(value, name)) for name in dict.fromkeys(names) if not name.startswith("_")}
    if hasattr(value, "_repr_html_"):
        found["html"] = value._repr_html_()
    return {"print": str(value), "repr": repr(value), **found}


def plain_array(array: np.ndarray) -> dict[str, Any]:
    """The type, the shape, a digest of all numbers, and some of them."""
    flat = array.ravel()
    if len(flat) > N_SAMPLED:
        flat = flat[np.linspace(0, len(flat) - 1, N_SAMPLED).astype(int)]
    if array.dtype.kind in "OUSM":
        content = json.dumps([str(each) for each in array.ravel()]).encode()
        flat = flat.astype(str)
    else:
        content = np.ascontiguousarray(array).tobytes()
    dtype = "text" if array.dtype.kind in "OU" else str(array.dtype)
    digest = hashlib.sha256(content).hexdigest()
    return {"dtype": dtype, "shape": list(array.shape), "sha256": digest, "sample": flat.tolist()}


def files_of(folder: Path) -> dict[str, Any]:
    """The files of a saved model: their names, their bytes, what the manifest says, and every array."""
    found: dict[str, Any] = {}
    for path in sorted(folder.iterdir()):
        name = re.sub(r"[0-9a-f]{16}", "DIGEST", path.name)
        if path.suffix == ".npz":
            arrays = dict(np.load(path))
            skeleton = json.loads(arrays.pop("skeleton").tobytes())
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[name] = {"sha256": digest, "skeleton": skeleton, "arrays": plain(arrays)}
        elif path.name == "manifest.json":
            manifest = json.loads(path.read_text())
            order = list(manifest)
            for key in ("accous", "checksum", "reference", "state"):
                del manifest[key]
            manifest["model"]["parameters"].pop("class_weight", None)  # a parameter since the golden set was made
            found[name] = {**manifest, "order": order}
        else:
            found[name] = "a file"
    return found


# --- comparing --------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)|(?<![\w.])-?\d[\d,]*\.\d+(?:e[+-]?\d+)?")
_BITS = ("sha256", "bytes")


def differences(expected: Any, found: Any, path: str, *, is_exact: bool) -> Iterator[str]:
    """Yield where two values differ, and how."""
    if isinstance(expected, dict) and isinstance(found, dict):
        if list(expected) != list(found):
            gone, new = (sorted(set(one) - set(other)) for one, other in ((expected, found), (found, expected)))
            yield f"{path}: keys differ: gone {gone}, new {new}" + ("" if gone or new else ", another order")
        for name in (each for each in expected if each in found):
            if is_exact or name not in _BITS:
                yield from differences(expected[name], found[name], f"{path}/{name}", is_exact=is_exact)
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            yield f"{path}: {len(expected)} expected, {len(found)} found"
        for number, pair in enumerate(zip(expected, found, strict=False)):
            yield from differences(*pair, f"{path}/{number}", is_exact=is_exact)
    elif not (is_equal(expected, found) or (not is_exact and is_near(expected, found, path))):
        yield f"{path}: {first_difference(expected, found)}"


def is_equal(expected: Any, found: Any) -> bool:
    return type(expected) is type(found) and repr(expected) == repr(found)


def is_near(expected: Any, found: Any, path: str) -> bool:
    if isinstance(expected, str) and isinstance(found, str):
        return is_text_near(expected, found)
    if isinstance(expected, bool) or isinstance(found, bool) or None in (expected, found):
        return False
    if isinstance(expected, str) or isinstance(found, str):
        return False
    atol = COUNTED_TOL if path.endswith(COUNTED) else ATOL
    return bool(np.isclose(found, expected, rtol=RTOL, atol=atol, equal_nan=True))


def is_text_near(expected: str, found: str) -> bool:
    """Whether texts are the same but for numbers that differ a little, or by one in the last digit that is shown."""
    expected, found = (re.sub(rf"({COUNTED}\W+)[\d.]{{4}}\d*", r"\1", text) for text in (expected, found))
    # Tables are as wide as their longest number.
    words = [re.sub(r"[ ─━┳┻╇┬┴]+", " ", _NUMBER.sub("#", text)) for text in (expected, found)]
    if words[0] != words[1]:
        return False
    pairs = zip(_NUMBER.findall(expected), _NUMBER.findall(found), strict=True)
    return all(abs(float(one.replace(",", "")) - float(other.replace(",", ""))) <= slack(one) for one, other in pairs)


def slack(number: str) -> float:
    mantissa, _, exponent = number.partition("e")
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    return max(1.01 * 10.0**-decimals, RTOL * abs(float(number.replace(",", ""))), ATOL)


def first_difference(expected: Any, found: Any) -> str:
    if isinstance(expected, str) and isinstance(found, str):
        lines = zip(expected.splitlines(), found.splitlines(), strict=False)
        for number, (one, other) in enumerate(lines, start=1):
            if one != other:
                place = next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
                shown = slice(max(0, place - 60), place + 120)
                return f"line {number}: expected ...{one[shown]!r}, found ...{other[shown]!r}"
        return f"{len(expected.splitlines())} lines expected, {len(found.splitlines())} found: {found[-200:]!r}"
    return f"expected {expected!r}, found {found!r}"


# --- running ----------------------------------------------------------------------------------------------------------


@contextmanager
def logged() -> Iterator[list[str]]:
    """What the package logs meanwhile."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(f"{record.levelname}: {record.getMessage()}")  # type: ignore[method-assign]
    logger = logging.getLogger("accous")
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


@contextmanager
def placed(name: str) -> Iterator[Path]:
    """An empty folder that has the same path each time, because saved models know the paths of their tables."""
    PLACE.mkdir(exist_ok=True)
    with (PLACE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PLACE / name, ignore_errors=True)
        (PLACE / name).mkdir()
        with chdir(PLACE / name):
            yield PLACE / name


def run_case(name: str) -> Any:
    with warnings.catch_warnings(record=True) as caught, logged() as logs, placed(name) as folder:
        warnings.simplefilter("always", UserWarning)
        found = CASES[name](folder)
        said = [f"{each.category.__name__}: {each.message}" for each in caught]
        return json.loads(json.dumps(plain({"result": found, "warnings": said, "logs": logs})))


# --- models on arrays -------------------------------------------------------------------------------------------------

Batches = list[tuple[np.ndarray, np.ndarray]]


def classes(n_classes: int = 2, *, n_reference: int = 120, n_rounds: int = 40, n_features: int = 3, seed: int = 0):
    """A reference and batches that jump between two populations."""
    stream = GaussianStream(
        SquareShift(period=16),
        n_features=n_features,
        n_reference=n_reference,
        n_rounds=n_rounds,
        batch_size=5,
        random_state=seed,
    )

    def labels(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        if n_classes == 2:
            return np.asarray(y)
        noise = np.sin(37.0 * X[:, 1])
        return np.array(["low", "middle", "top"])[np.digitize(X[:, 0] + 0.5 * X[:, 1] ** 2 + noise, [0.3, 1.6])]

    X, y = stream.reference()
    return (X, labels(X, y)), [(batch.X, labels(batch.X, batch.y)) for batch in stream]


def numbers(*, n_reference: int = 120, n_rounds: int = 40):
    stream = GaussianRegressionStream(
        SquareShift(period=16), n_features=3, n_reference=n_reference, n_rounds=n_rounds, batch_size=5
    )
    return stream.reference(), [(batch.X, batch.y) for batch in stream]


def read(model: Any, names: tuple[str, ...]) -> dict[str, Any]:
    found = {name: getattr(model, name) for name in names if hasattr(model, name)}
    found |= {"print": str(model), "html": notebook(model)}
    return plain(found)


def notebook(model: Any) -> str | None:
    """What accous adds to the display of scikit-learn, which shows other attributes in each version."""
    found = re.search(r'<table class="accous-state">.*?</table>', getattr(model, "_repr_html_", str)(), re.DOTALL)
    return found[0] if found else None


def predictions(model: Any, X: Any) -> dict[str, Any]:
    return plain({name: getattr(model, name)(X) for name in PREDICTING if hasattr(model, name)})


def everything(model: Any, X: np.ndarray, folder: Path) -> dict[str, Any]:
    accous.save(model, folder)
    return {
        "predictions": predictions(model, X),
        "readings": read(model, READINGS),
        "ratio": read(model.ratio_, RATIO_READINGS),
        "saved": files_of(folder),
    }


def follow(model: Any, batches: Batches) -> list[Any]:
    """Play the batches; every fourth time without predictions, and once with a single row."""
    found = []
    for number, (X, _) in enumerate(batches):
        if number % 4 == 3:
            model.adapt(X if number % 8 == 3 else X[:1])
        else:
            found.append(model.step(X))
    return plain(np.concatenate(found))


MODELS: dict[str, Callable[[], Any]] = {
    "two": AdaptiveClassifier,
    "three": lambda: AdaptiveClassifier(C=0.5, standardize=False),
    "regressor": AdaptiveRegressor,
    "regressor_squared": lambda: AdaptiveRegressor(loss="squared", alpha=3.0, refit=4, fallback="none"),
    "regressor_boosting": lambda: AdaptiveRegressor(
        HistGradientBoostingRegressor(max_iter=5, random_state=0), random_state=0, refit_budget=1.0
    ),
    "refit_always": lambda: AdaptiveClassifier(refit="always", fallback="none"),
    "refit_every_five": lambda: AdaptiveClassifier(refit=5, fallback="auto"),
    "no_fallback": lambda: AdaptiveClassifier(fallback="none"),
    "cautious": lambda: AdaptiveClassifier(caution="high"),
    "bold": lambda: AdaptiveClassifier(caution="low"),
    "bayes": lambda: AdaptiveClassifier(GaussianNB(), refit_budget=1.0),
    "bayes_no_fallback": lambda: AdaptiveClassifier(GaussianNB(), refit="always", fallback="none"),
    "tree": lambda: AdaptiveClassifier(DecisionTreeClassifier(max_depth=3, random_state=0), refit=8),
    "boosting": lambda: AdaptiveClassifier(
        HistGradientBoostingClassifier(max_iter=5, random_state=0), random_state=0, refit_budget=1.0
    ),
    "boosting_three": lambda: AdaptiveClassifier(
        HistGradientBoostingClassifier(max_iter=4, random_state=0), refit="always", fallback="none"
    ),
    "with_kmm": lambda: AdaptiveClassifier(ratio=accous.KMM(random_state=0), refit=4),
    "with_kliep": lambda: AdaptiveClassifier(ratio=accous.KLIEP(random_state=0), refit=4),
    "with_ulsif": lambda: AdaptiveClassifier(ratio=accous.ULSIF(random_state=0), refit=4),
    "with_rulsif": lambda: AdaptiveClassifier(ratio=accous.RULSIF(random_state=0), refit=4),
    "with_logistic": lambda: AdaptiveClassifier(ratio=accous.LogisticRatio()),
    "with_single": lambda: AdaptiveClassifier(ratio=SingleLearnerRatio()),
    "with_no_shift": lambda: AdaptiveClassifier(ratio=accous.NoShift()),
    "without_pool": lambda: AdaptiveClassifier(ratio=OnlineDensityRatio(pool="none")),
    "regressor_without_pool": lambda: AdaptiveRegressor(ratio=OnlineDensityRatio(pool="none"), fallback="none"),
}


def stream_for(name: str) -> Any:
    if "regressor" in name:
        return numbers()
    return classes(3 if "three" in name else 2)


def model_case(name: str) -> None:
    def run(folder: Path) -> dict[str, Any]:
        reference, batches = stream_for(name)
        weights = np.linspace(0.5, 1.5, len(reference[1])) if name in ("cautious", "regressor_squared") else None
        model = MODELS[name]().fit(*reference, sample_weight=weights)
        stepped = follow(model, batches)
        return {"stepped": stepped, **everything(model, batches[-1][0], folder / "saved")}

    run.__name__ = f"model_{name}"
    case(run)


for _name in MODELS:
    model_case(_name)


@case
def model_of_frames(folder: Path) -> dict[str, Any]:
    (X, y), batches = classes()
    names = ["age", "income", "größe"]
    model = AdaptiveClassifier().fit(pd.DataFrame(X, columns=names), np.where(y > 0, "yes", "no"))
    stepped = [model.step(pd.DataFrame(batch, columns=names)[names[::-1]]) for batch, _ in batches]
    found = {"stepped": np.concatenate(stepped), "names": model.feature_names_in_}
    return {**found, **everything(model, pd.DataFrame(batches[-1][0], columns=names), folder / "saved")}


@case
def model_wide(folder: Path) -> dict[str, Any]:
    reference, batches = classes(n_features=150, n_rounds=24)
    model = AdaptiveClassifier(fallback="none").fit(*reference)
    return {"stepped": follow(model, batches), **everything(model, batches[-1][0], folder / "saved")}


def with_order(model: Any, reference: Any, batches: Batches, folder: Path) -> dict[str, Any]:
    """A model with a backtest, whose labels come late, contradict it, and join the reference."""
    model.fit(*reference, order=True)
    third = len(batches) // 3
    found = {"after_fit": read(model, READINGS), "first": follow(model, batches[:third])}
    for X, y in batches[:third]:
        model.observe(X, y)
    found |= {"after_labels": read(model, READINGS), "second": follow(model, batches[third : 2 * third])}
    for X, y in batches[third : 2 * third]:
        wrong = (
            np.roll(np.unique(reference[1]), 1)[np.searchsorted(np.unique(reference[1]), y)]
            if y.dtype.kind != "f"
            else 4.0 - y
        )
        model.observe(X, wrong, predicted=model.predict(X))
    found |= {
        "contradicted": read(model, READINGS),
        "audit": plain(model.audit(*map(np.concatenate, zip(*batches[:third], strict=True)))),
    }
    model.extend(*map(np.concatenate, zip(*batches[third : 2 * third], strict=True)), max_reference=len(reference[1]))
    found |= {"extended": read(model, READINGS), "third": follow(model, batches[2 * third :])}
    return {**found, **everything(model, batches[-1][0], folder / "saved")}


@case
def order_of_two_classes(folder: Path) -> dict[str, Any]:
    return with_order(AdaptiveClassifier(), *classes(n_reference=400, n_rounds=60), folder)


@case
def order_of_three_classes(folder: Path) -> dict[str, Any]:
    return with_order(AdaptiveClassifier(caution="low"), *classes(3, n_reference=400, n_rounds=60), folder)


@case
def order_of_numbers(folder: Path) -> dict[str, Any]:
    return with_order(AdaptiveRegressor(), *numbers(n_reference=400, n_rounds=60), folder)


@case
def order_of_a_given_estimator(folder: Path) -> dict[str, Any]:
    model = AdaptiveClassifier(GaussianNB(), refit=8)
    return with_order(model, *classes(n_reference=300, n_rounds=30), folder)


@case
def backtests(folder: Path) -> dict[str, Any]:
    (X, y), _ = classes(n_reference=400)
    of_classes = accous.backtest(AdaptiveClassifier(), X, y, np.arange(len(y))[::-1])
    of_numbers = accous.backtest(AdaptiveRegressor(), *numbers(n_reference=300)[0], batch_size=5, cuts=(0.5, 0.7))
    return {
        name: {**plain(each), "summary": plain(each.summary()), "table": plain(each.table)}
        for name, each in (("classes", of_classes), ("numbers", of_numbers))
    }


def situations() -> dict[str, Callable[[np.ndarray, int], np.ndarray]]:
    """What may happen to a stream, for the words that are said about it."""
    return {
        "still": lambda X, _: X,
        "far": lambda X, number: X + 30.0 * (number > 20),
        "narrow": lambda X, _: X * 0.2 + np.array([2.5, 0.0, 0.0]),
        "moving": lambda X, number: X + 0.05 * number,
        "and_back": lambda X, number: X + 1.5 * ((number // 48) % 2),
        "constant": lambda X, _: np.where(np.arange(3) == 1, 7.0, X),
    }


@case
def words(folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {}
    for name, change in situations().items():
        for is_ordered in (False, True):
            X = rng.normal(size=(600, 3))
            y = (X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.5 * rng.normal(size=600) > 0.3).astype(int)
            model = AdaptiveClassifier().fit(X, y, order=is_ordered or None)
            alerts = accous.Alerts(["drift", "error > 20%", "predictions == no", "inputs == no"])
            said = []
            for number in range(160):
                model.adapt(change(rng.normal(size=(8, 3)), number))
                if number % 40 == 39:
                    said.append(plain(alerts.check(model)))
            key = f"{name}_{'ordered' if is_ordered else 'unordered'}"
            found[key] = {"alerts": said, **read(model, READINGS)}
    return found


@case
def labels_that_keep_coming(folder: Path) -> dict[str, Any]:
    """The model earns all three answers "yes" meanwhile, and loses them."""
    common = {
        "n_features": 2,
        "n_reference": 1000,
        "n_rounds": 200,
        "batch_size": 10,
        "alpha_0": 0.7,
        "random_state": 1,
    }
    found: dict[str, Any] = {}
    for name, make, model in (
        ("classes", GaussianStream, AdaptiveClassifier(caution="low")),
        ("numbers", GaussianRegressionStream, AdaptiveRegressor(caution="low")),
    ):
        stream = make(SquareShift(period=400), **common)
        model.fit(*stream.reference(), order=True)
        said = []
        for batch in stream:
            model.observe(batch.X, batch.y, predicted=model.step(batch.X))
            if batch.round % 20 == 0:
                said.append(plain([model.trust_, model.risk_, model.measured_]))
        found[name] = {"said": said, **read(model, READINGS)}
    return found


# --- ratios -----------------------------------------------------------------------------------------------------------

PAPER = {
    "feature_map": "identity",
    "scale_features": False,
    "fit_intercept": False,
    "start": "zero",
    "pool": "none",
    "meta_range": "paper",
    "step_size": 0.5,
    "horizon": 64,
    "radius": 2.0,
    "feature_bound": 4.0,
    "ridge": 1.0,
}
RATIOS: dict[str, Callable[[], Any]] = {
    "online": OnlineDensityRatio,
    "online_without_pool": lambda: OnlineDensityRatio(pool="none"),
    "online_as_in_the_paper": lambda: OnlineDensityRatio(**PAPER),
    "online_least_squares": lambda: OnlineDensityRatio(loss="least_squares"),
    "online_kl": lambda: OnlineDensityRatio(loss="kl", pool="none", start="ensemble", meta_range="running"),
    "online_rbf": lambda: OnlineDensityRatio("rbf", random_state=0),
    "online_standardize": lambda: OnlineDensityRatio("standardize", min_interval=8, max_ratio=3.0),
    "online_no_memory": lambda: OnlineDensityRatio(memory=0),
    "online_few_rows": lambda: OnlineDensityRatio(max_reference=50, random_state=0),
    "online_float32": lambda: OnlineDensityRatio(dtype="float32", pool="none"),
    "online_diagonal": lambda: OnlineDensityRatio(metric="diagonal"),
    "online_low_rank": lambda: OnlineDensityRatio(metric="low_rank", metric_rank=2),
    "online_candidates": lambda: OnlineDensityRatio(candidates=[SingleLearnerRatio(), accous.LogisticRatio()]),
    "wide_online": OnlineDensityRatio,
    "wide_online_without_pool": lambda: OnlineDensityRatio(pool="none"),
    "wide_online_full": lambda: OnlineDensityRatio(metric="full", pool="none"),
    "wide_online_diagonal": lambda: OnlineDensityRatio(metric="diagonal", pool="none"),
    "wide_single": SingleLearnerRatio,
    "single": SingleLearnerRatio,
    "single_rbf": lambda: SingleLearnerRatio("rbf", loss="least_squares", random_state=0),
    "no_shift": accous.NoShift,
    "kmm": lambda: accous.KMM(random_state=0),
    "kmm_few_centers": lambda: accous.KMM(max_centers=20, mass_tolerance=0.1, ridge=0.01, random_state=0),
    "kliep": lambda: accous.KLIEP(random_state=0),
    "ulsif": lambda: accous.ULSIF(random_state=0),
    "ulsif_width": lambda: accous.ULSIF(width=1.5, ridge=1.0, max_centers=30, random_state=0),
    "rulsif": lambda: accous.RULSIF(alpha=0.3, random_state=0),
    "logistic": accous.LogisticRatio,
}


def ratio_case(name: str) -> None:
    def run(folder: Path) -> dict[str, Any]:
        is_wide = name.startswith("wide")
        (X, _), batches = classes(n_features=200 if is_wide else 3, n_rounds=24 if is_wide else 70)
        ratio = RATIOS[name]().fit(X)
        losses, ratios = [], []
        for number, (rows, _) in enumerate(batches):
            rows = rows[:1] if number % 7 == 6 else rows
            losses.append(ratio.score_loss(rows) if hasattr(ratio, "score_loss") else 0.0)
            ratio.partial_fit(rows)
            if number % 6 == 0:
                ratios.append(ratio.predict_ratio(rows))
        accous.save(ratio, folder / "saved")
        return {
            "losses": np.array(losses),
            "ratios": ratios,
            "readings": read(ratio, RATIO_READINGS),
            "saved": files_of(folder / "saved"),
        }

    run.__name__ = f"ratio_{name}"
    case(run)


for _name in RATIOS:
    ratio_case(_name)


# --- keys and river ---------------------------------------------------------------------------------------------------


def key_rows(n_rows: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    keys = rng.choice(["a", "b", "c", "d <b>"], size=n_rows, p=[0.5, 0.25, 0.15, 0.1])
    X = rng.normal(size=(n_rows, 3)) + 1.5 * (keys == "b")[:, None]
    X[:, 1] += np.sin(np.arange(n_rows) / 40.0)
    times = 1.7e9 + 60.0 * np.arange(n_rows) + rng.uniform(0.0, 300.0, size=n_rows).round()
    return keys, times, X


KEYED = {
    "rows": {"round_size": 5},
    "times": {"round_time": 1200.0, "lateness": 600.0, "late": "count"},
    "late_next": {"round_size": 4, "lateness": 60.0},
    "late_drop": {"round_size": 4, "lateness": 60.0, "late": "drop"},
}


def key_model(folder: Path) -> Any:
    """The model that keys share is the saved one: a state belongs to its bits."""
    saved = FOLDERS / "keyed"
    if MAKE in os.environ:
        shutil.rmtree(saved, ignore_errors=True)
        accous.save(AdaptiveClassifier().fit(*classes(n_reference=150)[0]), saved)
    return accous.load(saved)


@case
def keyed(folder: Path) -> dict[str, Any]:
    keys, times, X = key_rows()
    model, found = key_model(folder), {}
    for name, settings in KEYED.items():
        adapter = KeyedAdapter(model, **settings)
        states: dict[str, bytes] = {}
        parts = []
        for start in range(0, len(keys), 100):
            part = slice(start, start + 100)
            is_last = start == 300
            after, *rest = adapter.step_many(states, keys[part], times[part], X[part], is_last=is_last)
            states |= after
            parts.append(plain(rest))
        readings = [each._asdict() for each in fleet(states, adapter)]
        page = render_fleet(readings, "four keys")
        alone = adapter.step(None, X[:33], times[:33], numbers=np.arange(33) + 7)
        found[name] = {
            "parts": parts,
            "states": dict(sorted(states.items())),
            "alone": alone,
            "readings": readings,
            "rounds": [[adapter.rounds_of(state), adapter.rows_seen(state)] for _, state in sorted(states.items())],
            "page": page_content(page),
        }
        if name == "rows" and MAKE in os.environ:
            np.savez(
                FOLDERS / "keyed_states.npz",
                **{f"key {key}": np.frombuffer(state, np.uint8) for key, state in states.items() if "<" not in key},
            )
    return found


@case
def keyed_states_go_on(folder: Path) -> dict[str, Any]:
    """States that were kept, and a folder of tables."""
    keys, times, X = key_rows(600)
    if MAKE in os.environ and not (FOLDERS / "keyed_states.npz").exists():
        keyed(folder)
    model = accous.load(FOLDERS / "keyed")
    adapter = KeyedAdapter(model, **KEYED["rows"])
    with np.load(FOLDERS / "keyed_states.npz") as kept:
        states = {name.removeprefix("key "): kept[name].tobytes() for name in kept}
    is_known = np.isin(keys, list(states))
    went_on = adapter.step_many(states, keys[is_known], times[is_known] + 1e6, X[is_known])
    pl.DataFrame({"key": keys, "time": times, **{f"x{i}": X[:, i] for i in range(3)}}).write_parquet("rows.parquet")
    n_rows = adapt_folder("rows.parquet", model, "out", key="key", time="time", buckets=2, trust_every=16, round_size=5)
    tables = {path.name: pl.read_parquet(path) for path in sorted(Path("out").iterdir())}
    return {"went_on": went_on, "n_rows": n_rows, "tables": tables}


@case
def river_models(folder: Path) -> dict[str, Any]:
    pytest.importorskip("river", reason="needs river: pip install 'accous[river]'")
    from accous.river import AdaptiveModel, AdaptiveRegressionModel

    found = {}
    for name, model, stream in (
        ("classes", AdaptiveModel(n_reference=60), classes(n_rounds=30)),
        ("numbers", AdaptiveRegressionModel(n_reference=60), numbers(n_rounds=30)),
    ):
        said = []
        for X, y in stream[1]:
            for row, label in zip(X, y, strict=True):
                x = dict(zip("abc", row.tolist(), strict=True))
                said.append([model.predict_one(x), model.predict_proba_one(x) if name == "classes" else None])
                model.learn_one(x, label.item())
        found[name] = {"said": said, **read(model.fitted, READINGS)}
    return found


# --- saved folders ----------------------------------------------------------------------------------------------------

KEPT: dict[str, Callable[[], Any]] = {
    "two": AdaptiveClassifier,
    "three": AdaptiveClassifier,
    "regressor": AdaptiveRegressor,
    "ratio": OnlineDensityRatio,
    "with_boosting": lambda: AdaptiveClassifier(HistGradientBoostingClassifier(max_iter=4, random_state=0), refit=4),
}


@case
def kept_folders_go_on(folder: Path) -> dict[str, Any]:
    found = {}
    for name, make in KEPT.items():
        reference, batches = stream_for(name)
        new = make()
        if name == "ratio":
            new.fit(reference[0])
            for X, _ in batches[:20]:
                new.partial_fit(X)
        else:
            follow(new.fit(*reference, order=True if name == "two" else None), batches[:20])
            new.observe(*batches[0])
        accous.save(new, folder / name)
        if MAKE in os.environ:
            shutil.rmtree(FOLDERS / name, ignore_errors=True)
            shutil.copytree(folder / name, FOLDERS / name)
        foreign = {"estimator": make().estimator} if "boosting" in name else {}
        model = accous.load(FOLDERS / name, **foreign)
        if name == "ratio":
            went_on = {"ratios": [model.partial_fit(X).predict_ratio(X) for X, _ in batches[20:]]}
        else:
            went_on = {
                "stepped": follow(model, batches[20:]),
                **everything(model, batches[0][0], folder / f"{name}-on"),
            }
        found[name] = {"new": files_of(folder / name), "went_on": went_on}
    return found


def go_on(table_model: Any, stream: pl.DataFrame, label: str) -> dict[str, Any]:
    frames = [table_model.step(stream[start : start + 6]) for start in range(0, len(stream), 6)]
    table_model.observe(stream[:30], stream[label][:30])
    return {
        "frames": pl.concat(frames),
        "predicted": table_model.predict(stream[:9].to_pandas()),
        "readings": read(table_model, TABLE_READINGS),
    }


@case
def kept_table_models_go_on(folder: Path) -> dict[str, Any]:
    found = {}
    for name, (reference, stream), options in (
        ("table_classes", class_tables(200, 120), ["--label", "label", "--drop", "id"]),
        ("table_numbers", number_tables(200, 120), ["--target", "minutes", "--ordered"]),
    ):
        if MAKE in os.environ:
            reference.write_csv("reference.csv")
            run("fit", "reference.csv", *options, "-o", name)
            table_model = accous.load(name)
            for start in range(0, 60, 6):
                table_model.step(stream[start : start + 6])
            accous.save(table_model, name)
            shutil.rmtree(FOLDERS / name, ignore_errors=True)
            shutil.copytree(name, FOLDERS / name, ignore=shutil.ignore_patterns(".*"))
        shutil.copytree(FOLDERS / name, f"{name}-kept")
        kept = accous.load(f"{name}-kept")
        went_on = go_on(kept, stream[60:], options[1])
        kept.extend(stream[60:90], stream[options[1]][60:90])
        accous.save(kept, f"{name}-kept")
        found[name] = {
            "went_on": went_on,
            "extended": read(kept, TABLE_READINGS),
            "kept": files_of(Path(f"{name}-kept")),
            "inspect": run("inspect", f"{name}-kept", "--json"),
        }
    return found


@case
def kept_run_goes_on(folder: Path) -> dict[str, Any]:
    """A run that was cut off is resumed from a folder that was kept: it knows its files by their full paths."""
    reference, stream = class_tables(200, 120)
    adapt = ("adapt", "model", "stream.csv", "-o", "predictions.csv", "--key", "id", "--batch-size", "7")
    if MAKE in os.environ:
        reference.write_csv("reference.csv")
        stream[:50].write_csv("stream.csv")
        run("fit", "reference.csv", "--label", "label", "--drop", "id", "-o", "model")
        run(*adapt)
        shutil.rmtree(FOLDERS / "run", ignore_errors=True)
        shutil.copytree("model", FOLDERS / "run" / "model", ignore=shutil.ignore_patterns(".*"))
        shutil.copy("predictions.csv", FOLDERS / "run")
        shutil.rmtree("model")
    shutil.copytree(FOLDERS / "run" / "model", "model")
    shutil.copy(FOLDERS / "run" / "predictions.csv", ".")
    stream.write_csv("stream.csv")
    said = run(*adapt, "--json")
    stream.select("id", "label")[::2].write_csv("labels.csv")
    labels = run("labels", "model", "labels.csv", "--key", "id", "--json")
    found = {"said": said, "labels": labels, "predictions": Path("predictions.csv").read_text()}
    return {**found, "files": files_of(Path("model")), "inspect": run("inspect", "model")}


# --- commands ---------------------------------------------------------------------------------------------------------


def class_tables(n_reference: int, n_stream: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Numbers with gaps, categories, dates, a key and a label."""
    rng = np.random.default_rng(5)
    n_rows = n_reference + n_stream
    number = np.arange(n_rows)
    is_moved = (number >= n_reference) & ((number // 30) % 2 == 0)
    X = rng.normal(size=(n_rows, 3)) + np.where(is_moved, 1.2, 0.0)[:, None]
    score = X[:, 0] + 0.6 * X[:, 1] ** 2 + 0.4 * rng.normal(size=n_rows)
    days = np.datetime64("2024-01-01") + number // 10
    colours = np.where(X[:, 2] > 1.0, "red", np.where(rng.random(n_rows) < 0.5, "blue", "grün"))
    frame = pl.DataFrame({f"x{i}": X[:, i].round(6) for i in range(3)}).with_columns(
        pl.Series("id", [f"row {each}" for each in number]),
        pl.when(pl.Series(rng.random(n_rows) < 0.1)).then(None).otherwise(pl.col("x1")).alias("x1"),
        pl.Series("colour", colours),
        pl.Series("day", [str(day) for day in days]),
        pl.Series("label", np.where(score > 0.4, "yes", "no")),
    )
    return frame[:n_reference], frame[n_reference:]


def number_tables(n_reference: int, n_stream: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    rng = np.random.default_rng(6)
    n_rows = n_reference + n_stream
    size = rng.normal(size=n_rows) + np.where(np.arange(n_rows) < n_reference, 0.0, 0.7)
    place = rng.choice(["north", "south"], size=n_rows)
    minutes = 30.0 + 8.0 * size + 5.0 * (place == "north") + 3.0 * rng.normal(size=n_rows)
    frame = pl.DataFrame({"size": size.round(6), "place": place, "minutes": minutes.round(3)})
    return frame[:n_reference], frame[n_reference:]


def run(*arguments: str) -> dict[str, Any]:
    """Run a command here: its exit code, and what it says."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2)]
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        code = main(list(arguments))
    out, err = (stream.buffer.getvalue().decode() for stream in streams if not stream.flush())
    # Said where nothing has been compiled yet, by the first command that needs it.
    err = re.sub(r"(?m)^Compiling inner loops .*\n", "", err)
    return {"code": code, "out": out, "err": err}


def page_content(page: str) -> dict[str, Any]:
    """The data that a page embeds, and its visible text."""
    data = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    body = re.sub(r"<(script|style).*?</\1>", "", page[page.index("<body") :], flags=re.DOTALL)
    words = unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "\n", body)))
    return {"data": json.loads(data[1]), "text": re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d( UTC)?", "DATE", words)}


@case
def backtest_command(folder: Path) -> dict[str, Any]:
    class_tables(400, 0)[0].write_csv("classes.csv")
    number_tables(300, 0)[0].write_csv("numbers.csv")
    of_classes = ("backtest", "classes.csv", "--label", "label", "--time", "day", "--drop", "id")
    of_numbers = ("backtest", "numbers.csv", "--target", "minutes", "--ordered", "--batch-size", "5")
    return {
        "classes": run(*of_classes),
        "classes_json": run(*of_classes, "--json"),
        "numbers": run(*of_numbers),
        "numbers_json": run(*of_numbers, "--json"),
    }


@case
def demo_command(folder: Path) -> dict[str, Any]:
    said = [run("demo", "--tables", ".", "--rounds", "40"), run("demo", "--rounds", "60", "--json", "--quiet")]
    tables = {name: Path(name).read_bytes() for name in ("reference.csv", "stream.csv")}
    return {"said": said, "tables": tables, "report": page_content(Path("demo.html").read_text())}


# --- the test ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(CASES))
def test_nothing_that_a_user_sees_has_changed(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    target = HERE / f"{name}.json.gz"
    found = run_case(name)
    if MAKE in os.environ:
        HERE.mkdir(exist_ok=True)
        target.write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))
        (HERE / "machine.json").write_text(json.dumps(fingerprint(), indent=1) + "\n")
        return
    expected = json.loads(gzip.decompress(target.read_bytes()))
    is_exact = same_machine()
    wrong = list(differences(expected, found, name, is_exact=is_exact))
    how = "bit for bit" if is_exact else f"within {RTOL:g}, on another machine"
    assert not wrong, f"{name}: {len(wrong)} values differ, compared {how}:\n" + "\n".join(wrong[:20])


if __name__ == "__main__":
    os.environ[MAKE] = "1"
    FOLDERS.mkdir(parents=True, exist_ok=True)
    chosen = ["-k", " or ".join(f"[{name}]" for name in sys.argv[1:])] if sys.argv[1:] else []
    raise SystemExit(pytest.main([__file__, "-q", "-n", "0", *chosen]))
