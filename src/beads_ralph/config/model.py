"""Every setting: its kind, its default, what it means; and the other places where a file may say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from beads_ralph.bead.field_types import Filled, Positive, SourceBranch
from beads_ralph.bead.model import Player, TemplateName
from beads_ralph.config.kinds import Agent, Command, Push, Seconds, SecondsOrNone
from beads_ralph.config.settings_file import StoreChoice
from beads_ralph.files.plugins import ExecutorName, ForgeName

# --- the settings -----------------------------------------------------------------------------------


class Section(BaseModel):
    # Strict, so that `min_free_gb: true` is a fault, and the published schema says the same.
    # Built when first used, and the defaults below are not validated: start-up is part of the product.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class PlanDefaults(Section):
    """What a sprint need not say itself. The plan's front matter has the same keys and goes first."""

    rig: Filled | None = Field(
        None,
        description="The repository's name in beads; `init` writes the folder's name.",
        examples=["shop"],
    )
    source_branch: SourceBranch | None = Field(
        None,
        description="The branch that work starts from; `init` writes the one checked out.",
        examples=["main"],
    )
    branch_template: Filled | None = Field(
        None,
        description="How branches are named; may hold {source}, {sprint}, {name} and {repo}.",
        examples=["work/{sprint}-{name}"],
    )
    worktree_root: Filled | None = Field(
        None, description="Where worktrees go; may hold {repo}.", examples=["../trees"]
    )
    scrum_master: Agent | None = Field(
        None,
        description="Who leads a team; the built-in one where nothing is set.",
        examples=["my-scrum-master (opus)"],
    )
    dev_agents: list[Agent] | None = Field(
        None,
        description="Who does the work; `init` writes `claude (sonnet)`.",
        examples=[["python-dev (opus)"]],
    )
    qa_agents: list[Agent] | None = Field(
        None,
        description="Who judges the work; `init` writes `qa-code-review (sonnet)`.",
        examples=[["qa (haiku) - run the tests"]],
    )
    team: Filled | None = Field(
        None,
        description="One team for all sprints, which then follow one another; otherwise each has its own.",
        examples=["core"],
    )
    labels: list[Filled] | None = Field(
        None, description="Labels for sprints that name none.", examples=[["backend"]]
    )
    priority: Annotated[int, Field(ge=0, le=4)] | None = Field(
        None, description="0, the most urgent, to 4; 1 where nothing is set.", examples=[2]
    )
    max_retry_attempts: Positive | None = Field(
        None, description="Attempts for a bead, in all; overrides the general key.", examples=[5]
    )
    verify: list[Command] | None = Field(
        None, description="Commands that must succeed, for sprints that name none.", examples=[["make test"]]
    )

    template: TemplateName | None = Field(
        None,
        description="The prompt template of sprints that name none; by their words where nothing is set.",
        examples=["feature"],
    )

    def over(self, weaker: PlanDefaults) -> PlanDefaults:
        """These defaults, with the weaker ones where these are silent."""
        return weaker.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})


class AgentDefaults(Section):
    """Defaults for agents that do not set these themselves."""

    default_model: Filled | None = Field(
        None, description="The model; `sonnet` where nothing says one.", examples=["opus"]
    )
    default_executable: Filled = Field(
        "claude", description="The program that plays every agent.", examples=["./my-agent"]
    )
    default_options: list[str] = Field(
        default_factory=lambda: ["--dangerously-skip-permissions"],
        description="The options of `claude`, for agents that name none.",
        examples=[["--permission-mode", "acceptEdits"]],
    )
    program_options: dict[Filled, list[str]] = Field(
        default_factory=dict,
        description="By program, the options for agents that name none; overrides `default_options`.",
        examples=[{"codex": ["--config=model_reasoning_effort=high"]}],
    )
    role_models: dict[str, str] = Field(
        default_factory=dict,
        description="The model by role: `polecat`, `witness`, `mayor`.",
        examples=[{"witness": "haiku"}],
    )
    tells_usage: list[Filled] = Field(
        default_factory=list,
        description="Programs without an adapter that tell tokens or cost, so that a budget can hold them.",
        examples=[["./aider-agent"]],
    )
    override_executable: Filled | None = Field(
        None,
        description="The program that plays every agent whatever the plan says; `run --agent` wins.",
        examples=["codex"],
    )
    override_model: Filled | None = Field(
        None, description="The model, whatever the plan says; `run --model` wins.", examples=["opus"]
    )
    fallback: list[Player] = Field(
        default_factory=list,
        description="Stand-ins for a program that cannot run, in order: `PROGRAM` or `PROGRAM:MODEL`.",
        examples=[["codex", "gemini"]],
    )


class Logging(Section):
    """The log of a run. What happened is in its journal; this is for finding out why."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "warning",
        description="How much is written; `debug` has every git and bd command with its exit code and time.",
        examples=["debug"],
    )
    format: Literal["text", "json"] = Field(
        "text", description="Plain lines, or one JSON object a line.", examples=["json"]
    )
    file: Filled | None = Field(
        None,
        description="Where to, seen from the repository's root; `.ralph/beads-ralph.log` where not set.",
        examples=["../beads-ralph.log"],
    )


class PortRange(Section):
    """Ports for worktrees: as many in a row for each, from the first on."""

    first: Annotated[int, Field(ge=1024, le=65535)]
    count: Annotated[int, Field(ge=1, le=1000)] = 10


class ModelPrice(Section):
    """US dollars for a million tokens of a model."""

    input: Annotated[float, Field(ge=0)]
    output: Annotated[float, Field(ge=0)]
    cached: Annotated[float, Field(ge=0)] | None = None
    """For tokens read from a cache; the price of the input where nothing is said."""


Urgency = Literal["needs_you", "ready", "warning", "info"]
"""needs_you: nothing goes on without a person. ready: something is done. warning: it may need one. info: the
rest."""

USUALLY_TOLD: Final[tuple[Urgency, ...]] = ("needs_you", "ready")


class NotifyChannel(Section):
    """A way to tell a person what needs them."""

    to: Filled
    """`desktop`, `webhook`, `command`, or a URL of Apprise. `$NAME` is taken from the environment."""
    url: Filled | None = None
    command: list[Filled] | None = None
    when: list[Urgency] = Field(default_factory=lambda: [*USUALLY_TOLD])


class TemporalSettings(Section):
    """The server that sessions on other machines are ordered through, with `engine: temporal`."""

    address: Filled = Field(
        "localhost:7233", description="Host and port of the Temporal server.", examples=["temporal.lan:7233"]
    )
    namespace: Filled = Field("default", description="The namespace on it.", examples=["agents"])
    task_queue: Filled = Field(
        "beads-ralph",
        description="The queue that workers take beads from; labels of a bead are added to its name.",
        examples=["beads-nightly"],
    )
    project: Filled | None = Field(
        None,
        description="The name of this plan's work on the server; made from the remote's address if not set.",
        examples=["shop"],
    )
    tls_ca: Filled | None = Field(
        None, description="The certificate that the server's is checked by.", examples=["~/temporal/ca.pem"]
    )
    tls_cert: Filled | None = Field(
        None, description="Our certificate, where the server asks for one.", examples=["~/temporal/me.pem"]
    )
    tls_key: Filled | None = Field(
        None, description="The key that belongs to it.", examples=["~/temporal/me.key"]
    )
    api_key_env: Filled | None = Field(
        None, description="The environment variable that holds the API key.", examples=["TEMPORAL_API_KEY"]
    )
    heartbeat_timeout: Seconds = Field(
        120.0,
        description="A host that gives no sign of life for so long is asked for by name, then given up.",
        examples=["5m"],
    )


class FormulaSettings(Section):
    """What becomes of the plain steps of a formula, which are for people otherwise."""

    for_agents: bool = False
    agent: Agent | None = None
    """Who does them; the developers of the plan where nothing is set."""


class Config(Section):
    """Every setting, flat, with its default."""

    store: StoreChoice = Field("auto", description="Where beads live; `--store` wins.", examples=["embedded"])
    bd_timeout: Seconds = Field(30.0, description="How long one call of bd may take.", examples=["1m"])
    plan: PlanDefaults = Field(
        PlanDefaults.model_construct(), description="Defaults for what a sprint does not say."
    )
    agent_defaults: AgentDefaults = Field(
        AgentDefaults.model_construct(), description="Defaults for agents that do not set these themselves."
    )
    formulas: dict[str, FormulaSettings] = Field(
        default_factory=dict,
        description="By formula: whether agents do its plain steps, and which one.",
        examples=[{"release": {"for_agents": True, "agent": "python-dev (opus)"}}],
    )
    executor: ExecutorName = Field(
        "local", description="Where agents run; `--executor` wins.", examples=["tmux"]
    )
    engine: Literal["local", "temporal"] = Field(
        "local",
        description="Where sessions run: on this machine, or on workers; `--engine` wins.",
        examples=["temporal"],
    )
    temporal: TemporalSettings = Field(
        TemporalSettings.model_construct(), description="The server of `engine: temporal`."
    )
    agent_home: Filled | None = Field(
        None,
        description="The HOME of agents; yours where nothing is set. May begin with ~.",
        examples=["~/agents"],
    )
    agent_env: list[Filled] = Field(
        default_factory=list,
        description="Environment variables of yours that agents, checks and setup may see too.",
        examples=[["JAVA_HOME", "NPM_TOKEN"]],
    )
    agent_memory_mb: Positive | None = Field(
        None,
        description="The most memory that an agent or a check may use with all its processes.",
        examples=[8000],
    )
    agent_output_mb: Positive = Field(
        100, description="The most that one call of an agent may print.", examples=[500]
    )
    sandbox: Literal["auto", "bwrap", "none"] = Field(
        "auto", description="What agents, checks and setup are sandboxed with.", examples=["bwrap"]
    )
    sandbox_network: bool = Field(True, description="Whether they have a network inside.", examples=[False])
    sandbox_writes: list[Filled] = Field(
        default_factory=list,
        description="What else they may write to in there, such as a package cache.",
        examples=[["~/.npm", "~/.cache/pip"]],
    )
    sandbox_reads: list[Filled] = Field(
        default_factory=list,
        description="What they may read in there although it is normally hidden, such as ~/.aws.",
        examples=[["~/.aws", "~/.npmrc"]],
    )
    verifier_sandbox: Literal["auto", "none"] = Field(
        "auto",
        description="Whether checks run in a place of their own where bubblewrap works.",
        examples=["none"],
    )
    verifier_home: Literal["own", "user"] = Field(
        "own", description="Whether checks get an empty home, or yours.", examples=["user"]
    )
    verifier_home_keeps: list[Filled] = Field(
        default_factory=list,
        description="What else of your home checks can see, besides tools and downloads.",
        examples=[[".npmrc", ".config/pip"]],
    )
    verifier_network: bool = Field(
        True, description="Whether checks reach more than this machine.", examples=[False]
    )
    forge: ForgeName = Field(
        "auto", description="Where pull requests are opened; `--forge` wins.", examples=["local"]
    )
    push: Push = Field(
        "ask",
        description="Whether finished branches are pushed to `origin`.",
        examples=["yes"],
    )
    budget_minutes: Annotated[float, Field(gt=0)] | None = Field(
        None, description="A run starts nothing more after this many minutes.", examples=[90]
    )
    budget_usd: Annotated[float, Field(gt=0)] | None = Field(
        None, description="A run starts nothing more once its agents have cost this much.", examples=[20]
    )
    budget_tokens: Positive | None = Field(
        None,
        description="A run starts nothing more once its agents have used this many tokens.",
        examples=[5000000],
    )
    prices: dict[Filled, ModelPrice] = Field(
        default_factory=dict,
        description="By model, dollars for a million tokens, for programs that tell no price themselves.",
        examples=[{"my-model*": {"input": 2, "output": 10, "cached": 0.2}}],
    )
    bead_budget_minutes: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="The minutes that work on one bead may take; its own `timeout_minutes` wins.",
        examples=[120],
    )
    bead_budget_usd: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="The cost that agents may report for one bead; its own `budget_usd` wins.",
        examples=[5],
    )
    bead_budget_tokens: Positive | None = Field(
        None,
        description="The tokens that agents may report for one bead; its own `budget_tokens` wins.",
        examples=[1000000],
    )
    max_parallel_sessions: Positive = Field(
        4, description="Beads at work at the same time; `--max-parallel` wins.", examples=[8]
    )
    poll_interval: Seconds = Field(
        30.0, description="How often a run looks for beads that others have made ready.", examples=["10s"]
    )
    outage_patience: Seconds = Field(
        14400.0,
        description="How long a run waits for a program whose server or network is down; then it ends.",
        examples=["30m"],
    )
    scrum_master_timeout: Seconds | None = Field(
        None,
        description=(
            "The most that a call of a scrum-master agent may take; not set, it is the bead's "
            "`max_retry_attempts` times (`dev_agent_timeout` + `qa_agent_timeout`) + 10 minutes."
        ),
        examples=["2h"],
    )
    dev_agent_timeout: Seconds = Field(
        1800.0, description="The most that a call of a dev or merge agent may take.", examples=["45m"]
    )
    qa_agent_timeout: Seconds = Field(
        600.0, description="The most that a call of a QA agent may take.", examples=["5m"]
    )
    stall_limit: SecondsOrNone = Field(
        600.0,
        description=(
            "How long an agent's program may show no sign of life before it is ended: no output, no work "
            "of a processor, no changed file in its worktree. 0 for no such limit."
        ),
        examples=["20m"],
    )
    max_retry_attempts: Positive = Field(
        3, description="Attempts for a bead, in all, where the plan says nothing.", examples=[5]
    )
    exec_agent_timeout: Seconds = Field(
        600.0, description="The most that `exec` lets one call of an agent take.", examples=["20m"]
    )
    exec_max_iterations: Positive = Field(
        10, description="Attempts at a Ralph bead that does not say how many.", examples=[5]
    )
    exec_backoff: Seconds = Field(
        30.0,
        description="How long `exec` waits after the first failed attempt; doubled after each further one.",
        examples=["10s"],
    )
    exec_backoff_max: Seconds = Field(
        300.0, description="The most that `exec` waits between two attempts.", examples=["10m"]
    )
    gate_interval: Seconds = Field(
        300.0, description="How often at most a run checks its gates again.", examples=["1m"]
    )
    gate_checkout: bool = Field(
        False,
        description="Check gates on a clean checkout of the source branch, not in the main one as it is.",
        examples=[True],
    )
    pr_creation_retries: Annotated[int, Field(ge=0)] = Field(
        3, description="How often to try again to open a pull request, when that may help.", examples=[5]
    )
    closed_by_hand: Literal["ask", "accept", "reopen"] = Field(
        "ask",
        description="How to treat a bead that somebody closed without a proof.",
        examples=["accept"],
    )
    plan_changes: Literal["apply", "refuse"] = Field(
        "apply",
        description="What `run PLAN` does with a plan that was edited since it was compiled.",
        examples=["refuse"],
    )
    write_plan_status: bool = Field(
        False,
        description="Whether `run PLAN` marks in the plan, at its end, what has become of each sprint.",
        examples=[True],
    )
    source_moves: Literal["keep", "restore", "follow"] = Field(
        "keep",
        description="What a run does when a source branch moves while it runs.",
        examples=["follow"],
    )
    rerun_red_checks: bool = Field(
        True,
        description="Run a red check again on the same commit; green then, a third run decides.",
        examples=[False],
    )
    gate_changes: Literal["rerun", "flag", "fail"] = Field(
        "rerun",
        description="What to do about changes to files that decide what passes.",
        examples=["flag"],
    )
    cleanup_on_complete: bool = Field(
        False, description="Remove the worktree of a bead that is done.", examples=[True]
    )
    worktree_files: list[Filled] = Field(
        default_factory=list,
        description="Untracked files of the main checkout that worktrees get copies of, as patterns.",
        examples=[[".env", ".env.*"]],
    )
    worktree_ports: PortRange | None = Field(
        None,
        description="A range of ports for every worktree at work.",
        examples=[{"first": 41000, "count": 10}],
    )
    worktree_setup: Filled | None = Field(
        None,
        description="A shell command that makes a new worktree or clean checkout ready.",
        examples=["npm ci"],
    )
    worktree_setup_timeout: Seconds = Field(
        600.0, description="The most that the setup command may take.", examples=["20m"]
    )
    min_free_gb: Annotated[float, Field(ge=0)] = Field(
        5.0, description="The free disk space that `doctor` and `run` ask for, in GB.", examples=[20]
    )
    check_before_start: bool = Field(
        True, description="Look at the disk before a run starts.", examples=[False]
    )
    max_interruptions: Annotated[int, Field(ge=0)] = Field(
        3,
        description="Block a bead after this many kills of the run in a row while its agent was at work; "
        "0 for never.",
        examples=[5],
    )
    max_network_retries: Annotated[int, Field(ge=0)] = Field(
        3, description="How often to try again when the network fails.", examples=[5]
    )
    retry_backoff: Literal["exponential", "linear", "constant"] = Field(
        "exponential", description="How the pauses between such tries grow.", examples=["linear"]
    )
    network_timeout: Seconds = Field(
        30.0, description="How long to wait for an answer from the network.", examples=["1m"]
    )
    state_dir: Filled = Field(
        "state",
        description="Where run and result records go, seen from the repository's root.",
        examples=["../state"],
    )
    notify: list[NotifyChannel] = Field(
        default_factory=list,
        description="How a run tells you what needs you: channels, each with `to` and `when`.",
        examples=[[{"to": "desktop"}, {"to": "webhook", "url": "$HOOK_URL", "when": ["needs_you"]}]],
    )
    logging: Logging = Field(
        Logging.model_construct(), description="What a run writes down for finding faults."
    )


INNER: Final[Mapping[str, type[Section]]] = {
    "plan": PlanDefaults,
    "agent_defaults": AgentDefaults,
    "logging": Logging,
    "temporal": TemporalSettings,
}
KEYS: Final[Mapping[str, type[Section]]] = {
    **{name: Config for name in Config.model_fields if name not in INNER},
    **{f"{part}.{name}": model for part, model in INNER.items() for name in model.model_fields},
}
"""Every key in full, such as `plan.rig`, and the model that has it."""


# --- where else a file may say it -------------------------------------------------------------------

SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "ralph": {},
    "disk": {},
    "timeouts": {
        "scrum_master": "scrum_master_timeout",
        "dev_agent": "dev_agent_timeout",
        "qa_agent": "qa_agent_timeout",
        "network": "network_timeout",
    },
    "retry": {
        "max_attempts": "max_retry_attempts",
        "pr_creation": "pr_creation_retries",
        "backoff": "retry_backoff",
    },
    "worktrees": {"root": "plan.worktree_root", "base": "plan.worktree_root"},
    "network": {
        "max_retries": "max_network_retries",
        "timeout": "network_timeout",
        "backoff": "retry_backoff",
    },
    "claude": {
        "model": "agent_defaults.default_model",
        "executable": "agent_defaults.default_executable",
        "options": "agent_defaults.default_options",
    },
}
"""Sections of the nested layout; inside one, a key means the flat key of the same name unless listed."""

SHORTCUTS: Final[Mapping[str, str]] = {
    **{name: f"plan.{name}" for name in PlanDefaults.model_fields if name not in Config.model_fields},
    **{name: f"agent_defaults.{name}" for name in AgentDefaults.model_fields},
    "repo_name": "plan.rig",
    "model": "agent_defaults.default_model",
}
"""Keys of `plan` and `agent_defaults` that may stand at the top, and two old names."""
