"""The rules of fields, as a JSON Schema can say them: patterns that take and refuse what our checks do."""

from __future__ import annotations

from typing import Any, Final

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema

END: Final = r"$(?!\n)"  # many engines let `$` match before a last line break
UNSEEN: Final = (
    r"\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\uf8ff\ufeff\ufff0-\ufffb"
)
"""Characters that cannot be seen, of those that ever turn up."""

FILLED: Final = r"\S"
BEAD_ID: Final = rf"^(?!-)(?!.*\.\.)[^\s/\\{UNSEEN}]+{END}"
PHASE: Final = rf"^[0-9]+[a-z]*{END}"
SPRINT: Final = rf"^[0-9]+[a-z]*\.[0-9]+[a-z]*{END}"
BRANCH: Final = rf"^(?!-)(?!HEAD{END})[a-zA-Z0-9_-]+(/[a-zA-Z0-9_-]+)*{END}"
_PART: Final = r"(?!\.)[^\x00-\x20\x7f~^:?*\[\\/]+(?<!\.)(?<!\.lock)"
SOURCE_BRANCH: Final = rf"^(?!-)(?!(@|HEAD){END})(?=.*\S)(?!.*(\.\.|@\{{)){_PART}(/{_PART})*{END}"
ABSOLUTE_PATH: Final = r"^(/|[^\x00]:[\\/]|\\\\[^\x00\\/]+[\\/][^\x00\\/]+)[^\x00]*$"
NO_NULL: Final = r"^[^\x00]*$"


def _date(dash: str) -> str:
    """A day of the calendar; the leap years have one more."""
    long = rf"(0[13578]|1[02]){dash}(0[1-9]|[12][0-9]|3[01])"
    short = rf"(0[469]|11){dash}(0[1-9]|[12][0-9]|30)"
    february = rf"02{dash}(0[1-9]|1[0-9]|2[0-8])"
    leap = r"([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
    week = rf"[0-9]{{4}}{dash}W(0[1-9]|[1-4][0-9]|5[0-2])({dash}[1-7])?"
    return rf"([0-9]{{4}}{dash}({long}|{short}|{february})|{leap}{dash}02{dash}29|{week})"


def _clock(colon: str) -> str:
    return rf"([01][0-9]|2[0-3])({colon}[0-5][0-9]({colon}[0-5][0-9]([.,][0-9]+)?)?)?"


_TIME: Final = rf"({_clock(':')}|{_clock('')})"
_EDGE: Final = r"(?!0000|0001-?01-?01[\s\S]*\+|9999-?12-?31[\s\S][\s\S]*-)"
"""Times at the edge of the calendar may have none in UTC."""
TIMESTAMP: Final = rf"^{_EDGE}({_date('-')}|{_date('')})([\s\S]{_TIME}(Z|[+-]{_TIME})?)?{END}"

OUTPUT_SCHEMA: Final[dict[str, Any]] = {
    "required": ["properties", "required"],
    "properties": {
        "properties": {
            "type": "object",
            "required": ["status", "message"],
            "properties": {
                "status": {
                    "type": "object",
                    "required": ["enum"],
                    "properties": {"enum": {"const": ["pass", "fail", "stop"]}},
                }
            },
        },
        "required": {
            "type": "array",
            "allOf": [{"contains": {"const": "status"}}, {"contains": {"const": "message"}}],
        },
    },
}


class JsonRule:
    """Adds to the JSON Schema of a type what its validator demands."""

    def __init__(self, **rule: Any) -> None:
        self.rule = rule

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(core_schema), **self.rule}
