"""What runs: backbones, heads, samplers, text encoders, autoencoders, and the catalogue."""
