"""Which commit a script's repository is at, read from its files."""

from __future__ import annotations

import re
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40,64}")


def commit_of(file: Path) -> str:
    """Return the commit that is checked out around a file; empty if there is none."""
    for directory in file.resolve().parents:
        if (directory / ".git").exists():
            try:
                return _head(_git_directory(directory / ".git"))
            except (OSError, ValueError):
                return ""
    return ""


def _git_directory(path: Path) -> Path:
    """Return the repository's own directory; worktrees name it in a file."""
    if path.is_dir():
        return path
    named = path.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
    return path.parent / named


def _head(git: Path) -> str:
    head = (git / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith("ref:"):
        return head if _COMMIT.fullmatch(head) else ""
    reference = head.removeprefix("ref:").strip()
    shared = git / "commondir"
    roots = [git]
    if shared.is_file():
        roots.append(git / shared.read_text(encoding="utf-8").strip())
    for root in roots:
        if (root / reference).is_file():
            commit = (root / reference).read_text(encoding="utf-8").strip()
            return commit if _COMMIT.fullmatch(commit) else ""
        packed = root / "packed-refs"
        if packed.is_file():
            for line in packed.read_text(encoding="utf-8").splitlines():
                commit, _, name = line.partition(" ")
                if name == reference and _COMMIT.fullmatch(commit):
                    return commit
    return ""
