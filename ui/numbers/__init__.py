"""Latency and throughput of each variant on this machine, measured when somebody asks."""
