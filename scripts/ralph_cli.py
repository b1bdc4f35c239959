"""`beads-ralph` for the scripts beside it: installed, or as it stands in this checkout."""

import sys

from _project import use_project

use_project(restart=True)

from beads_ralph.cli.entry import main

sys.exit(main(sys.argv[1:]))
