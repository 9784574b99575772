"""The Pocket world: emoji scenes, their captions and the rules that draw both from a seed."""
