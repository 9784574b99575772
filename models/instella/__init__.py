"""Instella-T2I: pictures as a short row of binary tokens, and the two generators that write it.

Source: "Instella-T2I: Pushing the Limits of 1D Discrete Latent Space Image Generation" (AMD, 2025;
arXiv 2506.21022). Tensor names are the published checkpoints', so their files load as they are.
Weights and reference code are for research only; neither is here.
"""
