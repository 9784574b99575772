"""How Pocket's weights are made: the world, the stages, the evaluation."""
