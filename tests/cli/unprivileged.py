"""`python unprivileged.py UID WORDS…`: beads-ralph as a user who may not do everything.

Root may read and write whatever it likes, so that no test of permissions works as root. The modules are
loaded first: their files may lie where the other user cannot look.
"""

import os
import sys

from beads_ralph.cli import app

if os.getuid() == 0:
    os.setgroups([])
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
sys.exit(app.run(sys.argv[2:]))
