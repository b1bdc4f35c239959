"""Watching a run and steering it: the live model, the board in the terminal, the board in the browser.

Everything shown comes from one model, fed by the journal and the store. A board only looks: it attaches to a
run, or to one that has ended, and never holds it up. A person's actions go through `app`, as a command does.
"""
