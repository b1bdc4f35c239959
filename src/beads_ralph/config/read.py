"""The file → Config: both layouts, every fault at once with its line, defaults for all the rest."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from pydantic import BaseModel, ValidationError

from beads_ralph.bead.model import AgentSpec, Expectation, Verifier
from beads_ralph.bead.schema import faults_of
from beads_ralph.config.model import INNER, KEYS, SECTIONS, SHORTCUTS, Config, PlanDefaults
from beads_ralph.config.settings_file import (
    CONFIG_NAME,
    SET,
    SettingsFile,
    from_environment,
    settings_file,
    users_file,
)
from beads_ralph.errors import Code, Fault, gathered
from beads_ralph.files import text_files
from beads_ralph.files.yaml_aliases import require_finite

PARTS: Final[Mapping[str, type[BaseModel]]] = {
    "plan.scrum_master": AgentSpec,
    "plan.dev_agents": AgentSpec,
    "plan.qa_agents": AgentSpec,
    "plan.verify": Verifier,
}
"""Keys whose values may be mappings with keys of their own."""


@dataclass(frozen=True)
class LoadedConfig:
    """A configuration, and where each part of it was said."""

    config: Config = field(default_factory=Config)
    warnings: tuple[Fault, ...] = ()
    file: Path | None = None
    """None where nothing but the defaults applies."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Key in full → the line of the file that sets it."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Key in full → the file or the variable that sets it."""
    named_by: str = ""
    """The option or variable that named the file; empty where it is the repository's own."""


def load(root: Path, explicit: Path | None = None) -> tuple[Config, list[Fault]]:
    """The configuration of a repository, and warnings about it."""
    settings = read(root, explicit)
    return settings.config, list(settings.warnings)


def read(root: Path, explicit: Path | None = None) -> LoadedConfig:
    """The same, with where everything comes from."""
    file = settings_file(root, explicit)
    layers = [_entries_of(text_files.read_text(path), str(path)) for path in _below(file)]
    if file is not None:
        layers.append(_entries_of(text_files.read_text(file.path), str(file.path)))
    loaded = _together([*layers, *_from_environment()])
    return replace(loaded, file=file.path if file else None, named_by=file.named_by if file else "")


def _below(file: SettingsFile | None) -> list[Path]:
    """The files that the repository's own goes before."""
    own = users_file()
    return [own] if own is not None and (file is None or own != file.path) else []


class Layer(NamedTuple):
    """What one file says, or the environment."""

    file: str
    entries: list[SettingEntry]


def _from_environment() -> list[Layer]:
    """Variables that set a key. Their values are YAML, so that a number is one."""
    rows = []
    for key, text in from_environment().items():
        variable = f"{SET}{key.upper().replace('.', '__')}"
        said, _ = _yaml(text, variable)
        part, _, word = key.rpartition(".")
        rows.append(Layer(variable, [SettingEntry(part, word, meaning(part, word), said, None)]))
    return rows


def parse(text: str, file: str = CONFIG_NAME) -> tuple[Config, list[Fault]]:
    settings = _read(text, file)
    return settings.config, list(settings.warnings)


def of_text(text: str, file: str = CONFIG_NAME) -> LoadedConfig:
    """The same of a text, with the line of every key."""
    return _read(text, file)


def _read(text: str, file: str) -> LoadedConfig:
    return _together([_entries_of(text, file)])


def _entries_of(text: str, file: str) -> Layer:
    said, lines = _yaml(text, file)
    if said is None:
        return Layer(file, [])
    if not isinstance(said, dict):
        raise gathered([Fault(Code.CONFIG_INVALID, "must be a YAML mapping (key: value)", file=file)], file)
    return Layer(file, list(_entries(said, lines)))


def _together(layers: Sequence[Layer]) -> LoadedConfig:
    """A later layer goes before an earlier one; every fault of all of them at once."""
    effective: dict[str, SettingEntry] = {}
    files: dict[str, str] = {}
    faults: list[Fault] = []
    warnings: list[Fault] = []
    for file, entries in layers:
        known = [entry for entry in entries if entry.known]
        own = _strongest(known)
        faults += [*_unknown(entries, file), *_unknown_inside(known, file), *_wrong(own, file)]
        warnings += _said_twice(known, own, file)
        effective |= own
        files |= dict.fromkeys(own, file)
    if faults:
        raise gathered(sorted(faults, key=lambda fault: fault.line or 0), faults[0].file or CONFIG_NAME)
    found = {name: entry.line for name, entry in effective.items() if entry.line is not None}
    config = Config.model_validate(_nested(effective)) if effective else Config()
    return LoadedConfig(config, tuple(warnings), lines=found, files=files)


def _wrong(effective: Mapping[str, SettingEntry], file: str) -> list[Fault]:
    """The faults of what one layer says; none of another can make it right."""
    try:
        Config.model_validate(_nested(effective))
    except ValidationError as problem:
        lines = {name: entry.line for name, entry in effective.items()}
        return _config_faults(problem, file, lines=lines)
    return []


# --- YAML, with lines -------------------------------------------------------------------------------


class Lines(NamedTuple):
    """Where a mapping's keys stand, and those of the mappings in it."""

    own: Mapping[str, int]
    inner: Mapping[str, Mapping[str, int]]


def _yaml(text: str, file: str) -> tuple[Any, Lines]:
    try:
        loader = yaml.SafeLoader(text.removeprefix("\ufeff"))
        try:
            node = loader.get_single_node()
            require_finite(node)
            said = loader.construct_document(node) if node is not None else None
            return said, _lines(loader, node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as problem:  # ValueError: the 99th of a month
        said = str(getattr(problem, "problem", None) or problem).split("\n", maxsplit=1)[0]
        fault = Fault(Code.CONFIG_INVALID, f"not valid YAML: {said}", file=file, line=_line_of(problem, text))
        raise gathered([fault], file) from None


def _lines(loader: yaml.SafeLoader, node: yaml.Node | None) -> Lines:
    own: dict[str, int] = {}
    inner: dict[str, Mapping[str, int]] = {}
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        name = str(loader.construct_object(key, deep=True))
        own[name] = key.start_mark.line + 1
        if isinstance(value, yaml.MappingNode):
            pairs = ((str(loader.construct_object(below, deep=True)), below) for below, _ in value.value)
            inner[name] = {below_name: below.start_mark.line + 1 for below_name, below in pairs}
    return Lines(own, inner)


def _line_of(problem: Exception, text: str) -> int | None:
    mark = getattr(problem, "problem_mark", None)
    if mark is not None:
        return int(mark.line) + 1
    if isinstance(problem, yaml.reader.ReaderError):
        return text.count("\n", 0, problem.position) + 1
    return None


# --- both layouts in one ----------------------------------------------------------------------------


class SettingEntry(NamedTuple):
    """One thing that the file says."""

    section: str
    key: str
    name: str
    """The key in full that it means."""
    value: Any
    line: int | None

    @property
    def written(self) -> str:
        return f"{self.section}.{self.key}" if self.section else self.key

    @property
    def known(self) -> bool:
        return self.name in KEYS or (self.name in INNER and not self.section)


def _entries(said: Mapping[Any, Any], lines: Lines) -> Iterator[SettingEntry]:
    """Sections opened, shortcuts resolved."""
    for key, value in said.items():
        name = str(key)
        if value is None and (name in SECTIONS or name in INNER):
            continue  # a section whose keys are all commented out
        if isinstance(value, dict) and (name in SECTIONS or name in INNER):
            below = lines.inner.get(name, {})
            for inner, setting in value.items():
                word = str(inner)
                yield SettingEntry(name, word, meaning(name, word), setting, below.get(word))
        else:
            yield SettingEntry("", name, meaning("", name), value, lines.own.get(name))


def meaning(section: str, key: str) -> str:
    if section in INNER:
        return f"{section}.{key}"
    key = SECTIONS.get(section, {}).get(key, key)
    return SHORTCUTS.get(key, key)


def _strongest(entries: Iterable[SettingEntry]) -> dict[str, SettingEntry]:
    """The value of each key: `plan.rig` before a mere `rig`, and otherwise the last one."""
    found: dict[str, SettingEntry] = {}
    for entry in entries:
        other = found.get(entry.name)
        if other is None or entry.section in INNER or other.section not in INNER:
            found[entry.name] = entry
    return found


def _nested(effective: Mapping[str, SettingEntry]) -> dict[str, Any]:
    tree: dict[str, Any] = {name: entry.value for name, entry in effective.items() if name in INNER}
    for name, entry in effective.items():
        part, _, key = name.rpartition(".")
        place = tree.setdefault(part, {}) if part else tree
        if isinstance(place, dict) and name not in INNER:  # else `plan: 5`, which is a fault anyway
            place[key] = entry.value
    return tree


# --- faults -----------------------------------------------------------------------------------------


def _unknown(entries: Iterable[SettingEntry], file: str) -> list[Fault]:
    return [
        Fault(
            Code.CONFIG_INVALID,
            f"unknown key '{entry.written}'{_hint(entry.key, _keys_in(entry.section))}",
            file=file,
            line=entry.line,
            field=entry.written,
        )
        for entry in entries
        if not entry.known
    ]


def _unknown_inside(entries: Iterable[SettingEntry], file: str) -> list[Fault]:
    """Slips in an agent or a verifier, which would otherwise be kept and mean nothing."""
    faults = []
    for entry in entries:
        for path, key, known in _keys_inside(entry.value, entry.name):
            if key not in known:
                message = f"unknown key '{path}.{key}'{_hint(key, known)}"
                faults.append(Fault(Code.CONFIG_INVALID, message, file, entry.line, f"{path}.{key}"))
    return faults


def _keys_inside(value: Any, name: str) -> Iterator[tuple[str, str, list[str]]]:
    """Path, key and the keys allowed beside it, for every mapping in the value."""
    model = PARTS.get(name)
    items = value if isinstance(value, list) else [value]
    for number, item in enumerate(items if model else ()):
        path = f"{name}.{number}" if isinstance(value, list) else name
        if not isinstance(item, dict) or model is None:
            continue
        yield from ((path, str(key), list(model.model_fields)) for key in item)
        if isinstance(item.get("expect"), dict):
            yield from (
                (f"{path}.expect", str(key), list(Expectation.model_fields)) for key in item["expect"]
            )


def _keys_in(section: str) -> list[str]:
    """The keys allowed there, the section's own first."""
    if section in INNER:
        return list(INNER[section].model_fields)
    flat = [key for key in (*Config.model_fields, *SHORTCUTS) if key not in INNER]
    return [*SECTIONS[section], *flat] if section else [*flat, *INNER, *SECTIONS]


def _hint(key: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    if close:
        return f"; did you mean '{close[0]}'?"
    return "; it belongs at the top of the file" if key in Config.model_fields else ""


def _said_twice(
    entries: Iterable[SettingEntry], effective: Mapping[str, SettingEntry], file: str
) -> list[Fault]:
    """Two layouts can say one thing in two places, and mean different things by it."""
    return [
        Fault(
            Code.CONFIG_INVALID,
            f"'{entry.written}' has no effect: '{winner.written}' sets {entry.name}, too",
            file=file,
            line=entry.line,
            field=entry.name,
        )
        for entry in entries
        if (winner := effective[entry.name]) is not entry and winner.value != entry.value
    ]


def _config_faults(
    problem: ValidationError,
    file: str,
    code: Code = Code.CONFIG_INVALID,
    lines: Mapping[str, int | None] | None = None,
) -> list[Fault]:
    return [
        Fault(
            code,
            fault.message.replace("field ", "key ", 1),
            file=file,
            line=_nearest(fault.field or "", lines or {}),
            field=fault.field,
        )
        for fault in faults_of(problem, file)
    ]


def _nearest(path: str, lines: Mapping[str, int | None]) -> int | None:
    """The line of `plan.dev_agents.0` is that of `plan.dev_agents`."""
    while path and path not in lines:
        path = path.rpartition(".")[0]
    return lines.get(path)


# --- front matter -----------------------------------------------------------------------------------


def plan_defaults(
    said: Mapping[str, Any], file: str, lines: Mapping[str, int]
) -> tuple[PlanDefaults, list[Fault], list[Fault]]:
    """Defaults out of a plan's front matter: what it sets, its faults, its warnings."""
    nested = said.get("beads-ralph")
    source = {**said, **nested} if isinstance(nested, dict) else dict(said)
    known = {key: value for key, value in source.items() if key in PlanDefaults.model_fields}
    try:
        defaults = PlanDefaults.model_validate(known)
    except ValidationError as problem:
        faults = _config_faults(problem, file, Code.PLAN_PATTERN)
        wrong = {(fault.field or "").split(".")[0] for fault in faults}
        rest = {key: value for key, value in known.items() if key not in wrong}
        return PlanDefaults.model_validate(rest), _at_lines(faults, lines), []
    return defaults, [], [_slip(key, file, lines.get(key)) for key in map(str, source) if _is_slip(key)]


def _at_lines(faults: list[Fault], lines: Mapping[str, int]) -> list[Fault]:
    return [
        Fault(
            fault.code,
            f"front matter: {fault.message}",
            fault.file,
            lines.get((fault.field or "").split(".")[0]),
        )
        for fault in faults
    ]


def _is_slip(key: str) -> bool:
    """A front matter is free to hold keys of other programs, so only what looks like ours counts."""
    known = list(PlanDefaults.model_fields)
    return key not in known and bool(difflib.get_close_matches(key, known, n=1, cutoff=0.8))


def _slip(key: str, file: str, line: int | None) -> Fault:
    hint = _hint(key, list(PlanDefaults.model_fields))
    return Fault(Code.PLAN_PATTERN, f"front matter: unknown key '{key}'{hint}", file=file, line=line)
