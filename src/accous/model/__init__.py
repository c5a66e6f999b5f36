"""Models that adapt: fitted once on a labelled reference, then adapted to unlabelled batches, round by round.

`estimators` holds the public classes. `round` is how the state moves, `predictors` how weights become a predictor,
`pair` the two predictors of "auto", `safeguards` what holds adaptation back, `tasks` class or number, `order` the order
of rows in time. `heldout` keeps predictions of rows that a fit had not seen, `backtest` replays labelled history,
`watching` is what rounds leave behind, `learning` chooses rows to label and learns from them, `performance` holds what
is measured, and `snapshot` is everything a model says of itself.
"""
