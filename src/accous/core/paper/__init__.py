"""The paper's algorithms as the paper writes them: plain numpy, one idea per file."""
