"""When and where things run: requests, events, scheduling, warm pool, caching, previews."""
