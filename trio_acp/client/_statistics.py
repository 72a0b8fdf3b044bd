"""The counters of a connection."""

from __future__ import annotations

import attrs

from ._connection import ClientConnection

__all__ = ["AgentStatistics", "statistics_of"]


@attrs.frozen
class AgentStatistics:
    """Counters of a connection, for logs and tests.

    Attributes:
        messages_received: well-formed messages that the agent has sent.
        junk_lines: lines of its that were no messages.
        updates_dropped: updates that did not fit the schema.
        completions_ignored: completions of url elicitations that were not open, or not any more (E3).
        leniencies: values that did not fit and were read as their default, or dropped from a list.
        open_requests: requests of ours that wait for an answer, running prompts among them.
        open_agent_requests: requests of the agent that wait for an answer.
        outbox_bytes: bytes that wait to be written.
    """

    messages_received: int
    junk_lines: int
    updates_dropped: int
    completions_ignored: int
    leniencies: int
    open_requests: int
    open_agent_requests: int
    outbox_bytes: int


def statistics_of(connection: ClientConnection) -> AgentStatistics:
    """Return the counters of a connection as they are now."""
    core = connection.peer.core
    return AgentStatistics(
        messages_received=core.messages_received,
        junk_lines=core.junk_lines,
        updates_dropped=connection.updates_dropped,
        completions_ignored=connection.elicitations.ignored,
        leniencies=connection.leniencies_total,
        open_requests=core.outbound_count,
        open_agent_requests=core.inbound_count,
        outbox_bytes=connection.peer.outbox.size,
    )
