"""Models that adapt: fitted once on a labelled reference, then adapted to unlabelled batches, round by round.

`estimators` holds the public classes. `round` is how the state moves, `predictors` how weights become a predictor,
`safeguards` what holds adaptation back, `tasks` class or number, `watching` what rounds leave behind, `order` the
order of rows in time, `backtest` the replay of labelled history, `labels` what late labels do, `snapshot` everything
a model says of itself.
"""
