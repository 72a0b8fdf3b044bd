"""For your own tests: peers that follow a script, spoiled streams, recordings, a referee for conversations.

Nothing of it is imported by the library itself. `trio_acp.testing.conformance` checks an agent from outside.
`trio_acp.testing.strategies` needs Hypothesis, which the extra ``testing`` brings.
"""

from __future__ import annotations

from trio_acp.transports import MemoryStream as MemoryStream
from trio_acp.transports import open_memory_pair as open_memory_pair

from ._checkpoints import AtStep as AtStep
from ._checkpoints import cancel_at_every_checkpoint as cancel_at_every_checkpoint
from ._faults import NOISE_LINES as NOISE_LINES
from ._faults import CoalescedStream as CoalescedStream
from ._faults import CorruptedStream as CorruptedStream
from ._faults import DuplicatedStream as DuplicatedStream
from ._faults import FaultyStream as FaultyStream
from ._faults import FragmentedStream as FragmentedStream
from ._faults import LineFaultStream as LineFaultStream
from ._faults import NoisyStream as NoisyStream
from ._faults import ReorderedStream as ReorderedStream
from ._faults import StalledStream as StalledStream
from ._faults import TruncatedStream as TruncatedStream
from ._leftovers import LeftBehind as LeftBehind
from ._leftovers import Leftovers as Leftovers
from ._leftovers import assert_nothing_left as assert_nothing_left
from ._leftovers import leftovers as leftovers
from ._outside import NOT_DEMANDED as NOT_DEMANDED
from ._outside import Failure as Failure
from ._outside import FuzzReport as FuzzReport
from ._outside import fuzz_agent as fuzz_agent
from ._outside import make_steps as make_steps
from ._outside import play_steps as play_steps
from ._recording import Recorded as Recorded
from ._recording import Recording as Recording
from ._recording import Replay as Replay
from ._recording import ReplayMismatch as ReplayMismatch
from ._recording import WireRecorder as WireRecorder
from ._referee import IllegalConversation as IllegalConversation
from ._referee import Referee as Referee
from ._referee import Violation as Violation
from ._referee import assert_conversation_legal as assert_conversation_legal
from ._roles import ALLOW_OR_REJECT as ALLOW_OR_REJECT
from ._roles import FULL_AGENT as FULL_AGENT
from ._roles import FULL_CLIENT as FULL_CLIENT
from ._roles import ScriptedAgent as ScriptedAgent
from ._roles import ScriptedClient as ScriptedClient
from ._roles import permission_option as permission_option
from ._scripted import HOLD as HOLD
from ._scripted import PeerError as PeerError
from ._scripted import ScriptedPeer as ScriptedPeer
from ._scripted import as_line as as_line
from ._transcript import Entry as Entry
from ._transcript import Party as Party
from ._transcript import Transcript as Transcript

__all__ = [
    "ALLOW_OR_REJECT",
    "FULL_AGENT",
    "FULL_CLIENT",
    "HOLD",
    "NOISE_LINES",
    "NOT_DEMANDED",
    "AtStep",
    "CoalescedStream",
    "CorruptedStream",
    "DuplicatedStream",
    "Entry",
    "Failure",
    "FaultyStream",
    "FragmentedStream",
    "FuzzReport",
    "IllegalConversation",
    "LeftBehind",
    "Leftovers",
    "LineFaultStream",
    "MemoryStream",
    "NoisyStream",
    "Party",
    "PeerError",
    "Recorded",
    "Recording",
    "Referee",
    "ReorderedStream",
    "Replay",
    "ReplayMismatch",
    "ScriptedAgent",
    "ScriptedClient",
    "ScriptedPeer",
    "StalledStream",
    "Transcript",
    "TruncatedStream",
    "Violation",
    "WireRecorder",
    "as_line",
    "assert_conversation_legal",
    "assert_nothing_left",
    "cancel_at_every_checkpoint",
    "fuzz_agent",
    "leftovers",
    "make_steps",
    "open_memory_pair",
    "permission_option",
    "play_steps",
]
