"""Density-ratio estimators: how much more likely a row is in the batch than in the reference.

`base` is the contract, also for your own estimator; `features` maps rows to features; `linear` is what ratios of scores
phi(x).theta share; `online` holds the paper's ensemble by name; `pool` mixes it with candidates; `one_step` holds the
estimators of a single batch.
"""
