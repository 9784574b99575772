"""Blind votes: two pictures of one prompt and seed, whose models are named after the vote."""
