"""Does an agent do what the protocol asks of it? Checks from outside, on the bytes of a real process.

Each check starts the agent anew, says something, and looks at what comes back; it knows nothing of how the
agent is made. `run_checks` runs them; each has one of three outcomes, and a sentence for people::

    for result in await run_checks(["my-agent", "acp"]):
        print(result)
"""

from __future__ import annotations

from ._model import Check as Check
from ._model import CheckResult as CheckResult
from ._model import Outcome as Outcome
from ._model import Prompts as Prompts
from ._run import CHECKS as CHECKS
from ._run import DEFAULT_LIMIT as DEFAULT_LIMIT
from ._run import DEMO_PROMPTS as DEMO_PROMPTS
from ._run import WAITS_OF_A_CHECK as WAITS_OF_A_CHECK
from ._run import run_checks as run_checks

__all__ = [
    "CHECKS",
    "DEFAULT_LIMIT",
    "DEMO_PROMPTS",
    "WAITS_OF_A_CHECK",
    "Check",
    "CheckResult",
    "Outcome",
    "Prompts",
    "run_checks",
]
