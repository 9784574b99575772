"""The page, its routes and the command line. Knows the engine's public API and nothing below it."""
