"""What weights and labels of the reference tell about the current round; arrays in, numbers out."""
