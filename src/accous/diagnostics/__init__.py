"""What the weights and labels of the reference show about the current round; arrays in, numbers out."""
