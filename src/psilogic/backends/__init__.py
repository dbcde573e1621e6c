"""The implementations of a step, and the rule that selects one for each bucket of tensors."""
