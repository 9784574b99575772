"""For all tests: no wall-clock deadline for generated examples, since machines may be busy."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
