"""Ready-made services for a host: files, terminals, permission policies, forms and addresses to open."""

from ._files import Codec as Codec
from ._files import Overlay as Overlay
from ._files import Utf8 as Utf8
from ._files import Workspace as Workspace
from ._files import cut_lines as cut_lines

__all__ = ["Codec", "Overlay", "Utf8", "Workspace", "cut_lines"]
