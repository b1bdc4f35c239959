"""`python -m beads_ralph`."""

import sys

from beads_ralph.entry import main

sys.exit(main())
