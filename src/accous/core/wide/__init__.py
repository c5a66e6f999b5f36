"""Online Newton Steps for many columns: matrices are kept as factors, sketches or diagonals."""
