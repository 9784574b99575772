"""Speed and cost measurements anyone can run."""
