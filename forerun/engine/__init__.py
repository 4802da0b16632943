"""The engine: computes the tokens of sequences that are not computed yet and returns logits of their last positions."""
