"""What weights, inputs and labels show; arrays and plain values in, plain values out.

`metrics` and `performance` say how good a model is, `status` what that means and what to do, `alarm` watches for ever.
`coverage` and `drift` are about the inputs, `losses`, `scales` and `evidence` about the weighted reference and its
replay, `conformal` about prediction sets and intervals; `plots` draws.
"""
