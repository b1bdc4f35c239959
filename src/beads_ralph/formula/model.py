"""A formula and its parts, as a file says them."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, model_validator

from beads_ralph.bead.field_types import FrozenModel, one_of
from beads_ralph.errors import Code, Fault

PLACEHOLDER: Final = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}")
EXTENSIONS: Final = (".formula.toml", ".formula.json")
"""In the order in which a folder is searched."""

FormulaType = Literal["workflow", "expansion", "aspect", "convoy"]
VarType = Literal["string", "int", "bool", "list"]
Place = Literal["project", "checkout", "user", "gt_root", "shipped"]
"""Where a formula was found; docs/reference/formula-reference.md has the folders."""
DURATION: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h))+")
CHILDREN_OF: Final = re.compile(r"children-of\((.*)\)")
SHOWN: Final = 60
PRIORITIES: Final = range(5)
GATE_TYPES: Final = ("human", "timer", "gh:run", "gh:pr", "bead")
"""A gate of another type is one that a person opens."""


def meant(name: str, known: Iterable[str]) -> str:
    """A question to add to a fault about a name that is nearly one of those known."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every value inside of objects and lists that is neither of them, with its field path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{at}]")
    else:
        yield path, value


def plain_text(value: Any) -> Any:
    """A value as the text that stands for it; what has none is given back, for a fault to name it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list) and all(isinstance(entry, str | int) for entry in value):
        return json.dumps([plain_text(entry) for entry in value], ensure_ascii=False)
    return value


def shown(value: Any) -> str:
    """A value as JSON, for a fault: cut off where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


Text = Annotated[str, BeforeValidator(plain_text)]


class Var(FrozenModel):
    """A variable, and which values it takes."""

    description: str = ""
    default: Text | None = None
    """Taken where nothing is given; a bare text in the place of the whole variable is this."""
    required: bool = False
    enum: list[Text] = Field(default_factory=list)
    pattern: str = ""
    """A regular expression that some part of the value must match, as in Go."""
    type: VarType = "string"
    derive: str = ""
    """`slug(title)`: how it follows from another variable where it is not given. Ours, not bd's."""


class StepGate(FrozenModel):
    """What a step waits for outside of the formula."""

    type: str
    id: str = ""
    await_id: str = ""
    """The run, the pull request or the bead; goes before `id`."""
    timeout: str = ""
    repo: str = ""


class StepLoop(FrozenModel):
    """Steps that are made several times, one round after the other."""

    count: int | None = None
    range: str = ""
    """`1..3`; numbers, `{names}` of variables, + - * / ^ and parentheses."""
    var: str = ""
    """The name by which the steps call the number of the round, as `{name}`."""
    until: str = ""
    max: int | None = None
    body: list[Step] = Field(default_factory=list)


class Step(FrozenModel):
    """One thing to do; `bead_id` and `after` are ours, the rest is bd's."""

    id: str = ""
    title: str = ""
    description: str = ""
    notes: str = ""
    type: str = ""
    priority: Annotated[int | str | None, one_of("a whole number from 0 to 4, or {{name}} of an int")] = None
    labels: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    assignee: str = ""
    depends_on: list[str] = Field(default_factory=list)
    needs: list[str] = Field(default_factory=list)
    """The same as `depends_on`."""
    waits_for: str = ""
    condition: str = ""
    children: list[Step] = Field(default_factory=list)
    gate: StepGate | None = None
    loop: StepLoop | None = None
    expand: str = ""
    expand_vars: dict[str, Any] = Field(default_factory=dict)
    on_complete: dict[str, Any] | None = None
    bead_id: str = ""
    """The id of the bead to be, where the formula chooses it."""
    after: list[str] = Field(default_factory=list)
    """Ids of beads outside of the pour that the step waits for."""

    @property
    def waits(self) -> list[str]:
        """The steps that it names as those it waits for, each once."""
        return list(dict.fromkeys((*self.depends_on, *self.needs)))

    @property
    def inner(self) -> list[Step]:
        """The steps inside: its children, or those of its loop."""
        return [*self.children, *(self.loop.body if self.loop is not None else ())]

    @property
    def children_of(self) -> str | None:
        """The step that `waits_for` names; without a name it means the first of `needs`, as in bd."""
        named = CHILDREN_OF.fullmatch(self.waits_for)
        return named[1] if named is not None else None


class BranchRule(FrozenModel):
    """`steps` run side by side after `from`, and `join` waits for all of them."""

    from_: str = Field("", alias="from")
    steps: list[str] = Field(default_factory=list)
    join: str = ""


class Compose(FrozenModel):
    """How a formula is put together."""

    branch: list[BranchRule] = Field(default_factory=list)
    bond_points: list[dict[str, Any]] = Field(default_factory=list)
    hooks: list[dict[str, Any]] = Field(default_factory=list)
    expand: list[dict[str, Any]] = Field(default_factory=list)
    map: list[dict[str, Any]] = Field(default_factory=list)
    gate: list[dict[str, Any]] = Field(default_factory=list)
    aspects: list[str] = Field(default_factory=list)


def _var(value: Any) -> Any:
    """A bare value stands for a variable with that default."""
    return {"default": value} if isinstance(value, str | int | list) else value


INPUT_TYPES: Final = {"int": "int", "bool": "bool", "boolean": "bool", "list": "list"}
"""Of the inputs of a convoy; any other is text."""


def _input(said: Any) -> Any:
    """An input of a convoy as a variable. One that another may stand in for need not be given."""
    if not isinstance(said, Mapping):
        return said
    kept = {key: said[key] for key in ("description", "default", "enum", "pattern") if key in said}
    needed = bool(said.get("required")) and not said.get("required_unless") and "default" not in said
    rest: dict[str, Any] = {"required": True} if needed else {"default": kept.get("default", "")}
    return {**kept, "type": INPUT_TYPES.get(str(said.get("type")), "string"), **rest}


class Formula(FrozenModel):
    """A pattern of work with variables."""

    formula: str = ""
    description: str = ""
    version: int = 1
    type: FormulaType = "workflow"
    extends: list[str] = Field(default_factory=list)
    vars: dict[str, Annotated[Var, BeforeValidator(_var)]] = Field(default_factory=dict)
    steps: list[Step] = Field(default_factory=list)
    template: list[dict[str, Any]] = Field(default_factory=list)
    legs: list[dict[str, Any]] = Field(default_factory=list)
    """Of a convoy: what is done side by side."""
    synthesis: dict[str, Any] | None = None
    """Of a convoy: what is made of the legs."""
    compose: Compose | None = None
    advice: list[dict[str, Any]] = Field(default_factory=list)
    pointcuts: list[dict[str, Any]] = Field(default_factory=list)
    phase: str = ""
    pour: bool = False
    intent: str = ""

    file: Path | None = Field(None, exclude=True)
    """Where it was read; set by the reader, as the two below, never by a file."""
    place: Place | None = Field(None, exclude=True)
    only_here: tuple[str, ...] = Field((), exclude=True)
    """What in its files bd itself does not read as it is meant."""

    @model_validator(mode="before")
    @classmethod
    def _take_inputs(cls, said: Any) -> Any:
        """The `inputs` of a convoy are its variables; what stands in `vars` goes before them."""
        if not isinstance(said, Mapping) or said.get("type") != "convoy":
            return said
        inputs, own = said.get("inputs"), said.get("vars", {})
        if not isinstance(inputs, Mapping) or not isinstance(own, Mapping):
            return said
        found = {name: _input(one) for name, one in inputs.items()}
        return {**{key: said[key] for key in said if key != "inputs"}, "vars": {**found, **own}}

    @property
    def name(self) -> str:
        """By which it is asked for: the file's name, and the field `formula` where there is no file."""
        return self.formula if self.file is None else name_of(self.file)

    @property
    def branches(self) -> list[BranchRule]:
        return self.compose.branch if self.compose is not None else []

    def fault(self, path: str, message: str, code: Code = Code.FORMULA_INVALID) -> Fault:
        """At a field; the file is the formula's own, also where the step comes from one that it extends."""
        file = str(self.file) if self.file is not None else None
        return Fault(code, f"{path}: {message}", file=file, field=path)


READERS_OWN: Final = ("file", "place", "only_here")


def name_of(file: Path) -> str:
    """`work` of `work.formula.toml`."""
    for extension in (*EXTENSIONS, ".toml", ".json"):
        if file.name.endswith(extension):
            return file.name.removesuffix(extension)
    return file.name


def is_duration(text: str) -> bool:
    """True for a time as in `1h30m`."""
    return DURATION.fullmatch(text) is not None


def all_steps(steps: list[Step], path: str = "steps") -> Iterator[tuple[str, Step]]:
    """Every step with its field path, those inside of steps and loops included."""
    for at, step in enumerate(steps):
        here = f"{path}[{at}]"
        yield here, step
        yield from all_steps(step.children, f"{here}.children")
        yield from all_steps(step.loop.body if step.loop is not None else [], f"{here}.loop.body")
