"""Ways to a peer: an agent's process, this process's own stdio, a pair in memory."""

from __future__ import annotations

from ._command import find_executable as find_executable
from ._environment import BASIC_VARIABLES as BASIC_VARIABLES
from ._environment import build_environment as build_environment
from ._group import ProcessGroup as ProcessGroup
from ._memory import MEMORY_PIPE_BYTES as MEMORY_PIPE_BYTES
from ._memory import MemoryStream as MemoryStream
from ._memory import open_memory_pair as open_memory_pair
from ._pair import StreamPair as StreamPair
from ._process import AgentProcess as AgentProcess
from ._stdio import StdioStream as StdioStream
from ._stdio import open_stdio as open_stdio

__all__ = [
    "BASIC_VARIABLES",
    "MEMORY_PIPE_BYTES",
    "AgentProcess",
    "MemoryStream",
    "ProcessGroup",
    "StdioStream",
    "StreamPair",
    "build_environment",
    "find_executable",
    "open_memory_pair",
    "open_stdio",
]
