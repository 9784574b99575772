"""Samplers: one file per way of turning hidden rows into tokens, all under one step contract."""
