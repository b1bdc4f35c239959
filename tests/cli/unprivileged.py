"""`python unprivileged.py UID WORDS…`: beads-ralph as a user who may not do everything.

Root may read and write whatever it likes, so that no test of permissions works as root. What a command
loads only when it runs, modules and package data, is loaded first: its files may lie where the other user
cannot look.
"""

import importlib
import os
import pkgutil
import sys

import beads_ralph
from beads_ralph import prompts
from beads_ralph.cli import entry

prompts.agent_files()
for module in pkgutil.walk_packages(beads_ralph.__path__, "beads_ralph."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
sys.exit(entry.main(sys.argv[2:]))
