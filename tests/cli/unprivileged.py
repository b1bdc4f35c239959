"""`python unprivileged.py UID WORDS…`: beads-ralph as a user who may not do everything.

Root may read and write whatever it likes, so that no test of permissions works as root. What a command
loads only when it runs, modules and package data, is loaded first: its files may lie where the other user
cannot look.
"""

import os
import sys

from beads_ralph import prompts
from beads_ralph.cli import entry, parser
from beads_ralph.cli.commands import COMMANDS, Group

prompts.agent_files()
everything = parser.whole()
for name, row in COMMANDS.items():
    group = everything.load(name)
    for inner in row.commands if isinstance(row, Group) else ():
        group.load(inner)
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
sys.exit(entry.main(sys.argv[2:]))
