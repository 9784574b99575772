"""Many pictures into a folder or a zip: what to draw, what is drawn already, drawing the rest.

`prompts` and `template` read what is asked for, `plan` numbers it, `ledger` keeps the folder whole
over interruptions, `runner` keeps the engine busy. Only `runner` knows the engine.
"""
