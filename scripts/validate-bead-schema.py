#!/usr/bin/env python3
"""Validate bead files: validate-bead-schema.py <bead.json>, or a bead on stdin."""

import sys

from _project import use_project

use_project(restart=True)

from beads_ralph.cli.entry import main

sys.exit(main(["validate", *sys.argv[1:]]))
