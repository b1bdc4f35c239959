"""A clean checkout of a commit: what others have changed in it, and how it is put back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beads_ralph.git import commands, git_files, index_file

ATTRIBUTES: Final = ".gitattributes"
MOST_NAMED: Final = 1000
"""So many files one command line may name."""


@dataclass(frozen=True)
class Checkout:
    """A commit as files. git of ours looks at it with an index of its own; the `.git` in it is for whoever
    works there."""

    path: Path
    commit: str
    env: Mapping[str, str]

    def changed(self) -> list[str]:
        """Files that differ from the commit, are gone, or are new and not ignored."""
        if self._is_untouched():
            return []
        words = ("ls-files", "-z", "--modified", "--others", "--exclude-standard")
        listing = commands.output(*words, cwd=self.path, env=self.env)
        return sorted({name for name in listing.split("\0") if name})

    def put_back(self) -> tuple[list[str], set[str]]:
        """Files of the commit that are not as they were put there; they are put back. With them, files and
        folders that the commit does not have."""
        files, new = self._look()
        if files:
            commands.output(
                "checkout-index", "--force", "--", *files[:MOST_NAMED], cwd=self.path, env=self.env
            )
        return files, new

    def untracked(self) -> set[str]:
        """Files and folders that the commit does not have, ignored ones too; a folder is one of them."""
        return self._look()[1]

    def _look(self) -> tuple[list[str], set[str]]:
        """Files of the commit that are not as they were put there, and what it does not have."""
        if self._is_untouched():
            return [], set()
        words = ("ls-files", "-z", "-t", "--modified", "--others", "--directory", "--no-empty-directory")
        rows = [row for row in commands.output(*words, cwd=self.path, env=self.env).split("\0") if row]
        new = {row[2:] for row in rows if row.startswith("? ")}
        return [row[2:] for row in rows if not row.startswith("? ")], new

    def _is_untouched(self) -> bool:
        index = Path(self.env["GIT_INDEX_FILE"])
        return index_file.is_unchanged(self.path, index, len(self.commit))

    def lay_over(self, base: str, old: Sequence[str], new: Sequence[str]) -> None:
        """Put files of another commit here, and take out those that it does not have."""
        if new:
            words = ("--literal-pathspecs", "rm", "--quiet", "--force", "--", *new)
            commands.output(*words, cwd=self.path, env=self.env)
        if old:
            words = ("--literal-pathspecs", "checkout", "--quiet", base, "--", *old)
            commands.output(*words, cwd=self.path, env=self.env)
        if any(name.endswith(ATTRIBUTES) for name in (*old, *new)):
            self._archive_as(base)

    def _archive_as(self, base: str) -> None:
        """`git archive` goes by the attributes of the commit, unless these say something else."""
        said = commands.run("show", f"{base}:{ATTRIBUTES}", cwd=self.path, env=self.env).stdout
        place = self.path / ".git" / "info" / "attributes"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"* !export-ignore !export-subst\n{said}", "utf-8", "surrogateescape")

    def head(self) -> str | None:
        """Where whoever works there has gone to."""
        return git_files.commit_of("HEAD", self.path)
