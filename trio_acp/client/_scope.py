"""What a service of the host needs to know of the session that it works for (S5)."""

from __future__ import annotations

from collections.abc import Hashable

import attrs

__all__ = ["SessionScope"]


@attrs.frozen
class SessionScope:
    """The session on whose behalf the agent asks for something.

    Attributes:
        id: the agent's id of it, unique on its connection only.
        cwd: its working directory, absolute.
        additional_directories: more directories that it may touch, absolute.
        connection: stands for the connection that it belongs to; equal for the sessions of one connection.
    """

    id: str
    cwd: str
    additional_directories: tuple[str, ...] = ()
    connection: Hashable = attrs.field(default=None, repr=False)

    @property
    def roots(self) -> tuple[str, ...]:
        """Its root set: what bounds its access to files, the working directory first (S5)."""
        return (self.cwd, *self.additional_directories)

    @property
    def key(self) -> Hashable:
        """What tells it from all other sessions, those of other connections included."""
        return (self.connection, self.id)
