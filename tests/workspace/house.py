"""A directory for an agent with a world around it, in which nothing may change."""

from __future__ import annotations

import os
import pathlib

__all__ = ["SECRET", "House"]

SECRET = "the secret of the house"


class House:
    """A root with a world around it, in which nothing may change."""

    def __init__(self, base: pathlib.Path) -> None:
        self.base = base
        self.root = base / "home" / "project"
        self.root.mkdir(parents=True)
        self.outside = base / "outside"
        self.outside.mkdir()
        self.sibling = base / "home" / "project-secrets"
        self.sibling.mkdir()
        for file in (self.outside / "secret", self.sibling / "secret", base / "secret"):
            file.write_text(SECRET)
        (self.root / "inside").mkdir()
        (self.root / "inside" / "file").write_text("inside")
        (self.root / "．．").mkdir()
        self.before = self.world()

    def world(self) -> dict[str, str]:
        """Everything around the root: names, and what they hold."""
        found: dict[str, str] = {}
        for directory, names, files in os.walk(self.base):
            if pathlib.Path(directory) == self.root:
                names.clear()
                continue
            for name in [*names, *files]:
                path = os.path.join(directory, name)
                is_file = os.path.isfile(path) and not os.path.islink(path)
                found[path] = pathlib.Path(path).read_text() if is_file else "-"
        return found
