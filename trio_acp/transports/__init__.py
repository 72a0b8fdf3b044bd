"""Ways to a peer: an agent's process, this process's own stdio, a pair in memory."""

from __future__ import annotations

from ._memory import MEMORY_PIPE_BYTES as MEMORY_PIPE_BYTES
from ._memory import MemoryStream as MemoryStream
from ._memory import open_memory_pair as open_memory_pair

__all__ = ["MEMORY_PIPE_BYTES", "MemoryStream", "open_memory_pair"]
