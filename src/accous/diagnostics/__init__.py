"""What weights, inputs and labels show; arrays and plain values in, plain values out.

`losses` and `risk` are about the error, prediction sets and intervals, `coverage` and `drift` about the inputs,
`labels` about labels that come late. `trust` puts them together, `messages` puts them into sentences,
`plots` draws them.
"""
