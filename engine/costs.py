"""Arithmetic of a picture, for those who must not import models."""

from __future__ import annotations

from models.costs import COSTS, estimate_gflop

__all__ = ["COSTS", "estimate_gflop"]
