"""An agent to try things with: no model, no network, but real files, commands, questions and sessions.

``python -m trio_acp.demo`` serves it on stdin and stdout. `create_app` makes it for other ways to serve it.
"""

from ._app import create_app as create_app
from ._main import main as main
from ._words import HELP as HELP

__all__ = ["HELP", "create_app", "main"]
