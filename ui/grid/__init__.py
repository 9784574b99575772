"""Settings against each other: what an axis says, the cells that two or three make, their sheet."""
