"""The board in the browser: who may look and steer, the live feed, the JSON behind it, and the pages.

Nothing here decides anything about beads: what is shown comes from the live model, what a person orders goes
to `board.actions`. Whatever agents, plans and logs say is data: pages escape it, scripts only ever set text.
"""
