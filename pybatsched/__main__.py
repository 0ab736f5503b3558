"""``python -m pybatsched`` is the pybatsched command."""

import sys

from pybatsched.cli import main

sys.exit(main())
