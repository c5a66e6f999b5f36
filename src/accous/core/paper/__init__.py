"""The paper's algorithms as written in the paper: plain numpy, one idea per file."""
