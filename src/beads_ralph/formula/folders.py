"""Where formulas lie, in the order in which they are looked for, and one formula by its name."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.formula.check import Origins, check
from beads_ralph.formula.file_format import read
from beads_ralph.formula.model import EXTENSIONS, Compose, Formula, Place, Var, name_of

BELOW: Final = Path(".beads") / "formulas"
SUFFIXES: Final = (".toml", ".json")
OWN: Final = ("project", "checkout")
"""Places that must be readable where they are there."""
SHIPPED: Final = Path(__file__).parent / "shipped"


@dataclass(frozen=True)
class ListedFormula:
    """One file of a listing: not read yet, or the formula with what it extends, or its faults."""

    name: str
    file: Path
    place: Place | None
    """None for a file that lies anywhere else."""
    shadowed: bool = False
    """Another file of this name is found first."""
    formula: Formula | None = None
    """None where it has faults, or is not read yet."""
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()

    def sound(self) -> Formula:
        if self.formula is None:
            raise gathered(self.faults, str(self.file), self.warnings)
        return self.formula


@dataclass(frozen=True)
class Folders:
    """The folders that are searched, the first one first."""

    places: tuple[tuple[Path, Place], ...]

    @classmethod
    def of(cls, root: Path, checkout: Path | None = None) -> Folders:
        """Those of a repository: bd's order, and after it what comes with us."""
        orchestrator = os.environ.get("GT_ROOT")
        wanted: list[tuple[Path | None, Place]] = [
            (root / BELOW, "project"),
            (_below(checkout), "checkout"),
            (_below(_home()), "user"),
            (_below(Path(orchestrator) if orchestrator else None), "gt_root"),
            (SHIPPED, "shipped"),
        ]
        places: dict[Path, Place] = {}
        for path, place in wanted:
            if path is not None:
                places.setdefault(path, place)
        return cls(tuple(places.items()))

    def found(self) -> list[ListedFormula]:
        """Every file, in the order of the search; of two of one name the first counts."""
        return [found for path, place in self.places for found in _in_folder(path, place)]

    def listing(self) -> list[ListedFormula]:
        """All of them read, with their faults; in the order of the search."""
        entries, seen = [], set[str]()
        for found in self.found():
            entries.append(replace(self._entry(found.file, found.place), shadowed=found.name in seen))
            seen.add(found.name)
        return entries

    def load(self, name: str) -> Formula:
        """FORMULA.NOT_FOUND with names like it, or everything that is wrong with its files, gathered."""
        return self.entry(name).sound()

    def entry(self, name: str) -> ListedFormula:
        """The one that counts of a name; FORMULA.NOT_FOUND."""
        found = self.file_of(name)
        if found is None:
            raise self._not_found(name)
        return self._entry(found.file, found.place)

    def entry_of(self, file: Path) -> ListedFormula:
        """A file's; it has a place where its name would lead to it, too."""
        if not file.name.endswith(SUFFIXES):
            message = "a formula is a .formula.toml or .formula.json file"
            fault = Fault(Code.FORMULA_INVALID, message, str(file))
            return ListedFormula(file.name, file, None, faults=(fault,))
        found = self.file_of(name_of(file))
        place = found.place if found is not None and _same(found.file, file) else None
        return self._entry(file, place)

    def file_of(self, name: str) -> ListedFormula | None:
        return next((found for found in self.found() if found.name == name), None)

    def _entry(self, file: Path, place: Place | None) -> ListedFormula:
        return _Resolving(self).entry(file, place)

    def _not_found(self, name: str) -> RalphError:
        names = list(dict.fromkeys(found.name for found in self.found()))
        close = difflib.get_close_matches(name, names, n=3)
        meant = f"; did you mean {' or '.join(close)}?" if close else ""
        looked = "\n".join(f"{place}: {path}" for path, place in self.places)
        return RalphError(
            Code.FORMULA_NOT_FOUND, f"there is no formula {name}{meant}", details=f"looked in\n{looked}"
        )


def _below(base: Path | None) -> Path | None:
    return base / BELOW if base is not None else None


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:  # no HOME, and nobody of that number in the user database
        return None


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _in_folder(folder: Path, place: Place) -> Iterator[ListedFormula]:
    """By name, and of one name the TOML file first; what editors leave behind begins with a dot."""
    try:
        files = list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as problem:
        if place not in OWN:  # somebody else's home, say; bd passes it over, too
            return
        code = Code.PERMISSION_DENIED if isinstance(problem, PermissionError) else Code.FILE_NOT_FOUND
        raise RalphError(code, f"cannot look into {folder}: {problem.strerror}") from None
    known = (file for file in files if file.name.endswith(EXTENSIONS) and not file.name.startswith("."))
    found = [ListedFormula(name_of(file), file, place) for file in known]
    yield from sorted(found, key=lambda one: (one.name, not one.file.name.endswith(EXTENSIONS[0])))


# --- extends ----------------------------------------------------------------------------------------


_Merged = tuple[Formula, Origins]
"""A formula with what it extends, and where its parts come from."""


class _Resolving:
    """One formula and those it extends, recursively."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self.faults: list[Fault] = []

    def entry(self, file: Path, place: Place | None) -> ListedFormula:
        merged = self._merged(file, place, ())
        plain = ListedFormula(name_of(file), file, place)
        if merged is None or self.faults:
            return replace(plain, faults=tuple(dict.fromkeys(self.faults)))
        report = check(*merged)
        sound = None if report.faults else merged[0]
        return replace(plain, formula=sound, faults=report.faults, warnings=report.warnings)

    def _merged(self, file: Path, place: Place | None, chain: tuple[Path, ...]) -> _Merged | None:
        said = read(file, place)
        self.faults += said.faults
        if said.formula is None:
            return None
        formula = said.formula
        steps = [(file, at) for at in range(len(formula.steps))]
        merged = formula, Origins(file, steps, dict.fromkeys(formula.vars, file))
        parents = [self._parent(formula, at, (*chain, file)) for at in range(len(formula.extends))]
        return _extended(merged, [parent for parent in parents if parent is not None]) if parents else merged

    def _parent(self, formula: Formula, at: int, chain: tuple[Path, ...]) -> _Merged | None:
        name, path = formula.extends[at], f"extends[{at}]"
        found = self.folders.file_of(name)
        if found is None:
            self.faults.append(formula.fault(path, f"there is no formula {name!r}"))
            return None
        if any(_same(found.file, file) for file in chain):
            names = [name_of(file) for file in chain]
            circle = " → ".join((*names[names.index(name) if name in names else 0 :], name))
            self.faults.append(formula.fault(path, f"the formulas extend one another: {circle}"))
            return None
        parent = self._merged(found.file, found.place, chain)
        self.faults += check(*parent).faults if parent is not None else ()
        return parent


def _extended(child: _Merged, parents: Sequence[_Merged]) -> _Merged:
    """As bd merges: the parents' steps, replaced in their place by the child's of the same id; then the
    child's other steps. Of variables the child's count, then those of the first parent that has them."""
    own, origin = child
    steps = [pair for formula, origins in parents for pair in zip(formula.steps, origins.steps, strict=True)]
    places = {step.id: at for at, (step, _) in enumerate(steps)}
    for step, place in zip(own.steps, origin.steps, strict=True):
        if step.id in places:
            steps[places[step.id]] = (step, place)
        else:
            steps.append((step, place))
    variables: dict[str, Var] = {}
    files: dict[str, Path] = {}
    for formula, origins in reversed((child, *parents)):
        variables = formula.vars | {name: var for name, var in variables.items() if name not in formula.vars}
        files |= origins.variables
    formulas = [formula for formula, _ in parents]
    merged = own.model_copy(
        update={
            "steps": [step for step, _ in steps],
            "vars": variables,
            "compose": _composed([*formulas, own]),
            "only_here": _only_here(own, formulas),
        }
    )
    return merged, Origins(own.file, [place for _, place in steps], files)


def _composed(formulas: Sequence[Formula]) -> Compose | None:
    said = [formula.compose for formula in formulas if formula.compose is not None]
    if len(said) <= 1:
        return said[0] if said else None
    rows = {key: [row for one in said for row in one.to_json().get(key, ())] for key in Compose.model_fields}
    return Compose.model_validate({key: value for key, value in rows.items() if value})


def _only_here(child: Formula, parents: Sequence[Formula]) -> tuple[str, ...]:
    """Reasons why bd would merge it wrongly, besides those of its files."""
    reasons = [reason for formula in (child, *parents) for reason in formula.only_here]
    if child.pour:
        reasons.append("pour is forgotten by bd where a formula extends another")
    composed = [formula for formula in (child, *parents) if formula.compose is not None]
    if len(composed) > 1 and any(formula.branches for formula in composed):
        reasons.append("compose.branch is forgotten by bd where both formulas have compose")
    if any(formula.place == "shipped" for formula in parents):
        reasons.append("it extends a formula that comes with beads-ralph, where bd does not look")
    return tuple(dict.fromkeys(reasons))
