"""The named scenarios: what the model does, and what goes wrong on the way.

    ok          a shell command that commits hello.py, then a text with a fenced JSON verdict
    text prose  no tool call; with a verdict, without one
    denied      as ok, and claims success whatever came of the command
    loop        calls the tool for ever
    sleep[N]    a command of N seconds (97)
    flood[N]    a text of N megabytes (2)
    script      the rules registered for the run; a run with rules plays them in the scenarios below too
    400 …       any error status; 429[rN] tells N seconds (1) until it is worth trying again
    limit[rN]   429 as for a quota that is used up
    toolong     a prompt that does not fit, as the vendor says it; credit: an account without money, likewise
    hang        no answer; stall: half a stream, then silence; drop: half a stream, then the end
    malformed   a stream that is no JSON
    …xN         only the first N requests go wrong: 500x2, dropx1; the rules of a script name trouble, too

The trouble is for the turns of the agent; titles and the choice of a model are always answered.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

from tests.model import tools
from tests.model.exchange import Answer, Call, Json, Question, Refusal, Say
from tests.model.script import Script

Mishap = Literal["hang", "stall", "drop", "malformed"]
MISHAPS: dict[str, Mishap] = {"hang": "hang", "stall": "stall", "drop": "drop", "malformed": "malformed"}
OWN_WORDS: dict[str, Literal["too_long", "credit"]] = {"toolong": "too_long", "credit": "credit"}
TROUBLE = re.compile(
    r"(?P<kind>[45]\d\d|limit|toolong|credit|hang|stall|drop|malformed)(?:r(?P<after>\d+))?(?:x(?P<first>\d+))?"
)
PLAY = re.compile(r"(?P<name>ok|text|prose|denied|loop|sleep|flood|script)(?P<size>\d+)?")
MARK = re.compile(r"MARK-\w+")
FENCED = re.compile(r"```json\s*\n(.*?)\n```", re.DOTALL)
LOOPS, SLEEP_SECONDS, FLOOD_MEGABYTES = "echo still at it", 97, 2

COMMIT = (
    "printf 'print(\"hello\")\\n' > hello.py && git add hello.py"
    " && git commit --quiet --message 'Add hello.py'"
)
MEND = (
    "printf 'print(\"hello, mended\")\\n' > hello.py && git add hello.py"
    " && git commit --quiet --message 'Fix hello.py per QA'"
)


@dataclass(frozen=True)
class Scenario:
    """One name, taken apart."""

    name: str
    play: str = "ok"
    size: int | None = None
    refusal: Refusal | None = None
    mishap: Mishap | None = None
    first: int | None = None
    """Only so many requests go wrong."""

    def goes_wrong(self, number: int) -> bool:
        """Whether the run's request of that number, from 1 on, does."""
        return bool(self.refusal or self.mishap) and (self.first is None or number <= self.first)


def scenario(name: str) -> Scenario | None:
    """The scenario of that name, if there is one."""
    if found := TROUBLE.fullmatch(name):
        first = int(found["first"]) if found["first"] else None
        return _troubled(name, found["kind"], int(found["after"] or 1), first)
    if found := PLAY.fullmatch(name):
        return Scenario(name, found["name"], int(found["size"]) if found["size"] else None)
    return None


def _troubled(name: str, kind: str, after: int, first: int | None) -> Scenario:
    if kind in MISHAPS:
        return Scenario(name, mishap=MISHAPS[kind], first=first)
    exhausted = kind == "limit"
    if kind in OWN_WORDS:
        refusal = Refusal(400, after, kind=OWN_WORDS[kind])
    else:
        refusal = Refusal(429 if exhausted else int(kind), after, exhausted)
    return Scenario(name, refusal=refusal, first=first)


def is_aside(question: Question) -> bool:
    """A request beside the agent's turns: a title, or which model to take."""
    return not question.tools and (question.schema is not None or "title" in question.system.lower())


def trouble(question: Question, script: Script | None) -> Scenario | None:
    """What the rule for the question says that goes wrong with it."""
    part = script.part(question) if script and not is_aside(question) else None
    return scenario(part.rule.trouble) if part else None


def answer(chosen: Scenario, question: Question, script: Script | None) -> Answer:
    """What the model says to the question."""
    if is_aside(question):
        return _aside(question)
    if waiting := tools.wait(question):
        return waiting
    if script and chosen.play in {"ok", "script"}:
        return _played(script, question)
    return _shaped(_named(chosen, question), question)


def _aside(question: Question) -> Say:
    if question.schema is None:
        return Say("A piece of work")
    return Say(json.dumps(tools.instance(question.schema)))


def _played(script: Script, question: Question) -> Answer:
    part = script.part(question)
    if part is None:
        return Say("No rule of the script fits what was asked.")
    call = _step(question, part.run)
    if call:
        return call
    shaped = _shaped(Say(part.say), question)
    # claude ends its turn with the tool for structured answers, or asks once more after it.
    once_more = isinstance(shaped, Say) and question.tool("StructuredOutput") and FENCED.search(part.say)
    if not once_more:
        script.told(part)
    return shaped


def _step(question: Question, commands: tuple[str, ...]) -> Call | None:
    """The next command that has not run in this turn."""
    at = tools.ended(question)
    tool = tools.shell(question)
    return tools.run(tool, commands[at]) if tool and at < len(commands) else None


def _named(chosen: Scenario, question: Question) -> Answer:
    verdict = f"Work finished.\n\n```json\n{json.dumps(_verdict(question))}\n```"
    texts = {
        "text": verdict,
        "prose": "I looked at everything and all is well.",
        "flood": "word " * ((chosen.size or FLOOD_MEGABYTES) * 200_000),
    }
    if chosen.play in texts:
        return Say(texts[chosen.play])
    if chosen.play == "loop":
        return _step(question, (LOOPS,) * (tools.ended(question) + 1)) or Say(
            "There is no shell to loop with."
        )
    command = MEND if "QA" in question.asked else COMMIT
    if chosen.play == "sleep":
        command = f"python3 -c 'import time; time.sleep({chosen.size or SLEEP_SECONDS})'"
    return _step(question, (command,)) or Say(verdict)


def _verdict(question: Question) -> Json:
    markers = list(dict.fromkeys(MARK.findall(question.said)))
    return {"status": "pass", "message": "hello.py is committed", "markers": markers}


def _shaped(said: Answer, question: Question) -> Answer:
    """The answer in the shape that the request demands: a schema, or claude's tool for one."""
    if isinstance(said, Call):
        return said
    fenced = FENCED.search(said.text)
    value = json.loads(fenced[1]) if fenced else None
    tool = question.tool("StructuredOutput")
    if tool and value is not None:
        told = _fitting(value, tool.schema)
        again = any(item.kind == "call" and item.text == json.dumps(told) for item in question.turn)
        return said if again else Call(tool, told)
    if question.schema is not None and question.tools:
        fits = tools.instance(question.schema) if value is None else _fitting(value, question.schema)
        return Say(json.dumps(fits))
    return said


def _fitting(value: Json, schema: Json) -> Json:
    """Without the fields that a strict schema does not know."""
    if schema.get("additionalProperties") is not False:
        return value
    return {name: entry for name, entry in value.items() if name in schema.get("properties", {})}
