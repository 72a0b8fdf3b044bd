"""The ``trio-acp`` command: run a prompt against an agent, or look at what an agent offers."""

from ._main import main as main

__all__ = ["main"]
