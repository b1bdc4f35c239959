"""`python -m beads_ralph`."""

import sys

from beads_ralph.cli.entry import main

sys.exit(main())
