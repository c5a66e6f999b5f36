"""Online Newton Steps for many columns: matrices kept as factors, sketches or diagonals."""
