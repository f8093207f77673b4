"""One call of `fit`, `evaluate` or `predict`, from its checks to its history."""
