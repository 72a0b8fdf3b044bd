"""Ways to a peer: an agent's process, this process's own stdio, a pair in memory."""

from __future__ import annotations

from ._environment import BASIC_VARIABLES as BASIC_VARIABLES
from ._pair import StreamPair as StreamPair
from ._process import AgentProcess as AgentProcess

__all__ = ["BASIC_VARIABLES", "AgentProcess", "StreamPair"]
