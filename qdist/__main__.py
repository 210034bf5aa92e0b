"""``python -m qdist`` is the `qdist` command."""

import sys

from qdist.cli import main

sys.exit(main())
