"""``python -m trio_acp.demo``: serve the demo agent on stdin and stdout."""

import sys

from ._main import main

sys.exit(main())
