"""Logging in and out: ``authenticate`` and ``logout`` (U1 to U3)."""

from typing import ClassVar, Literal, TypeAlias

from attrs import define, field

from ._base import Lenient, NullAsDefault, UnknownVariant, WireObject, new_dict, new_list, open_union
from .identifiers import AuthMethodId

__all__ = [
    "AuthMethod",
    "AuthMethodAgent",
    "AuthMethodTerminal",
    "AuthenticateRequest",
    "AuthenticateResponse",
    "LogoutRequest",
    "LogoutResponse",
]


@define(repr=False, eq=False)
class AuthMethodAgent(WireObject):
    """The agent sees to the login itself when it gets ``authenticate`` (U1). Its tag is left out on the wire.

    Attributes:
        id: What ``authenticate`` is called with.
        name: What people call this way to log in.
        description: More about it, for people.
    """

    type: ClassVar[Literal["agent"]] = "agent"

    id: AuthMethodId
    name: str
    description: Lenient[str | None] = None


@define(repr=False, eq=False)
class AuthMethodTerminal(WireObject):
    """The client runs the agent's own command again in a terminal, for the user to log in there (U2).

    Attributes:
        id: Names this way to log in; ``authenticate`` is never called with it.
        name: What people call it.
        description: More about it, for people.
        args: Arguments to append to the agent's command.
        env: Variables to lay over the agent's environment.
    """

    type: ClassVar[Literal["terminal"]] = "terminal"

    id: AuthMethodId
    name: str
    description: Lenient[str | None] = None
    args: NullAsDefault[list[str]] = field(factory=new_list)
    env: NullAsDefault[dict[str, str]] = field(factory=new_dict)


AuthMethod: TypeAlias = AuthMethodAgent | AuthMethodTerminal | UnknownVariant
"""A way to log in, told apart by ``type``; no type means that the agent sees to it."""

open_union(AuthMethod, "AuthMethod", "type", default=AuthMethodAgent, default_tags=("agent",))


@define(repr=False, eq=False)
class AuthenticateRequest(WireObject):
    """Parameters of ``authenticate``: one of the agent's own methods, by its id."""

    method_id: AuthMethodId


class AuthenticateResponse(WireObject):
    """Result of ``authenticate``: the user is logged in."""

    __slots__ = ()


class LogoutRequest(WireObject):
    """Parameters of ``logout``: none."""

    __slots__ = ()


class LogoutResponse(WireObject):
    """Result of ``logout``: the user is logged out."""

    __slots__ = ()
