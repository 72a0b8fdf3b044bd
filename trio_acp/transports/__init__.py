"""Ways to a peer: an agent's process, this process's own stdio, a pair in memory."""

from __future__ import annotations

__all__: list[str] = []
