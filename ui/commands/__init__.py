"""What `app.py` can do besides serving: one module per command."""
