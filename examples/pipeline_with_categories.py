"""A scikit-learn pipeline on a data frame with categories and missing values, kept up to date through a heat wave.

Will a bicycle rental be busy today? Up to about 22 degrees, warmer means busier; beyond that, heat keeps people at
home. A linear model fitted on a year's weather learns "warmer means busier" and fails in a heat wave. But the reference
has some hot days. With the right weights, these are enough to adapt, without any new labels.
"""

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio

rng = np.random.default_rng(0)


def observe(n_rentals: int, temperature: float, skies: list[str]) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the weather at some rentals, with a tenth of the values missing, and whether they were busy."""
    weather = pd.DataFrame(
        {
            "temperature": rng.normal(temperature, 8.0, n_rentals),
            "wind": rng.gamma(4.0, 3.0, n_rentals),
            "sky": rng.choice(skies, n_rentals),
        }
    )
    comfort = 4.0 - 0.04 * (weather["temperature"] - 22.0) ** 2 - 0.1 * weather["wind"] + (weather["sky"] == "clear")
    is_busy = rng.random(n_rentals) < 1.0 / (1.0 + np.exp(-comfort))
    return weather.mask(rng.random(weather.shape) < 0.1), np.where(is_busy, "busy", "quiet")


X_reference, y_reference = observe(2000, temperature=18.0, skies=["clear", "cloudy", "rain"])

# The preprocessing is used twice: inside the pipeline, and to make the features in which the drift is tracked.
preprocessing = make_column_transformer(
    (make_pipeline(SimpleImputer(), StandardScaler()), ["temperature", "wind"]),
    (OneHotEncoder(handle_unknown="ignore"), ["sky"]),
)
pipeline = make_pipeline(preprocessing, LogisticRegression())
fixed = AdaptiveClassifier(pipeline, ratio=NoShift()).fit(X_reference, y_reference)
ratio = OnlineDensityRatio(feature_map=preprocessing)
adapted = AdaptiveClassifier(pipeline, ratio=ratio).fit(X_reference, y_reference)

is_right: dict[str, list[bool]] = {"fixed": [], "adapted": []}
for day in range(1, 41):  # a degree warmer every day, up to 30, with a new kind of sky
    X_batch, y_batch = observe(20, temperature=min(18.0 + day, 30.0), skies=["clear", "cloudy", "Sahara dust"])
    if day > 12:
        is_right["fixed"] += list(fixed.predict(X_batch) == y_batch)
        is_right["adapted"] += list(adapted.predict(X_batch) == y_batch)
    adapted.adapt(X_batch)

print(f"{len(is_right['fixed'])} rows from the heat wave, with missing values and a sky the reference does not have:")
for name, hits in is_right.items():
    print(f"  {name:8s} {np.mean(hits):.0%} right")
