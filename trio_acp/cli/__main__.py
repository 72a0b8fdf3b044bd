"""``python -m trio_acp.cli`` is the same as ``trio-acp``."""

import sys

from ._main import main

sys.exit(main())
