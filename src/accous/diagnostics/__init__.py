"""What weights, inputs and labels show; arrays and plain values in, plain values out.

`metrics` and `performance` say how good a model is, `status` what that means and what to do, and when the alarm goes
off. `coverage` and `drift` are about the inputs, `losses` and `evidence` about the weighted reference, sets and
intervals of what conforms to it, its replay and the picture of that.
"""
