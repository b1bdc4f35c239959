// A bead's page: its head and stages live, what its agents did as they do it, orders for it.

import { age, count, h, laneOf, LANES, mark, money, pipeline, span } from "./dom.js";
import { subscribe } from "./feed.js";
import { button, give, mayAct, ordersFor } from "./actions.js";
import { onKey } from "./shell.js";

const id = document.getElementById("bead").dataset.bead;
const parts = Object.fromEntries(["state", "orders", "stages", "script", "calls", "figures"].map((name) => [name, document.getElementById(name)]));
let bead = null;
let run = null;
let chosen = null;
let following = true;
let seen = "";

function stages() {
  const rows = bead.pipeline.filter((stage) => stage.state !== "waits" || stage.steps.length);
  if (!rows.length) return [h("p", { class: "empty" }, bead.waits.length ? bead.waits.map((wait) => wait.text).join("; ") : "Not begun yet.")];
  const glyphs = { done: ["✓", "done"], now: ["▶", "running"], failed: ["✗", "blocked"], waits: ["·", ""] };
  return [pipeline(bead), h("div", { class: "steps" }, rows.map((stage) => h("div", {},
    h("div", { class: "stage-line" }, h("span", { class: `glyph ${glyphs[stage.state][1]}`, "aria-hidden": "true" }, glyphs[stage.state][0]),
      h("b", {}, stage.name), h("span", { class: "sr" }, stage.state), stage.seconds ? span(stage.seconds) : stage.state === "now" ? age(bead.stage_since) : null),
    stage.steps.length ? h("ul", {}, stage.steps.map((step) => h("li", {},
      `${glyphs[step.state][0]} ${step.name}${step.seconds ? `, ${span(step.seconds)}` : ""}${step.note ? `: ${step.note}` : ""}`))) : null)))];
}

function show() {
  const lane = laneOf(bead);
  const looks = { done: "good", blocked: "bad", running: "accent", parked: "warn" };
  parts.state.replaceChildren(h("span", { class: `pill ${looks[lane] || ""}` }, mark(lane), LANES[lane].toLowerCase(), bead.standing && lane === "done" ? `, ${bead.standing}` : ""),
    bead.critical ? h("span", { class: "crit" }, "▬ critical path") : "",
    lane === "running" ? h("span", {}, [bead.role, bead.program, bead.model].filter(Boolean).join(" · ")) : "");
  parts.figures.replaceChildren(...[
    bead.attempt ? h("span", {}, h("b", {}, `${bead.attempt}${bead.max_attempts ? `/${bead.max_attempts}` : ""}`), " attempt") : null,
    lane === "running" ? h("span", {}, h("b", {}, age(bead.since))) : null,
    bead.tokens ? h("span", {}, h("b", {}, count(bead.tokens)), " tokens") : null,
    bead.cost_usd ? h("span", {}, h("b", {}, money(bead.cost_usd))) : null].filter(Boolean));
  const focused = document.activeElement?.dataset?.order;
  parts.orders.replaceChildren(...ordersFor(bead, run).map((name, at) => button(name, { bead: id }, at === 0)));
  if (focused) parts.orders.querySelector(`[data-order="${focused}"]`)?.focus();
  parts.stages.replaceChildren(...stages());
}

// --- what the agents did ---

function line(one) {
  switch (one.kind) {
    case "said": return h("div", { class: "said" }, one.text);
    case "thought": return h("div", { class: "thought" }, one.text);
    case "tool": return h("div", { class: "tool" }, h("b", {}, "→ "), `${one.tool} ${one.about}`);
    case "command": return h("div", { class: "command" }, h("b", {}, "$ "), one.command);
    case "result": {
      const bad = one.failed || (one.exit_code ?? 0) !== 0;
      const text = [one.of && `of ${one.of}`, one.output.trim(), bad && (one.exit_code === null ? "✗ failed" : `✗ exit ${one.exit_code}`)].filter(Boolean).join("\n");
      return text ? h("div", { class: bad ? "result bad" : "result" }, text) : null;
    }
    case "cost": return h("div", { class: "cost" }, `Σ ${one.words}`);
    default: return h("div", { class: one.trouble ? "note-line bad" : "note-line" }, one.text || "");
  }
}

let asking = false;
async function script() {
  if (asking || !parts.script) return;
  asking = true;
  try {
    const answer = await fetch(`/api/v1/beads/${encodeURIComponent(id)}/transcript${chosen === null ? "" : `?call=${chosen}`}`);
    if (answer.ok) showScript(await answer.json());
  } catch { /* the feed says that the server is gone */ }
  asking = false;
}

function showScript(told) {
  const names = told.calls.map((call) => call.name).join();
  if (parts.calls.dataset.names !== names || parts.calls.dataset.at !== String(told.call)) {
    parts.calls.dataset.names = names;
    parts.calls.dataset.at = String(told.call);
    parts.calls.replaceChildren(...told.calls.map((call, at) => h("button", {
      type: "button", class: "chip", "aria-pressed": String(at === told.call), onclick: () => { chosen = at; seen = ""; script(); },
    }, call.name)));
  }
  const now = JSON.stringify([told.call, told.size]);
  if (now === seen) return;
  seen = now;
  const rows = told.lines.map(line).filter(Boolean);
  if (told.left_out) rows.unshift(h("div", { class: "note-line" }, `… ${told.left_out} earlier lines left out; beads-ralph logs has them`));
  parts.script.replaceChildren(...(rows.length ? rows : [h("p", { class: "empty" }, "Nothing was said yet.")]));
  if (following) parts.script.scrollTop = parts.script.scrollHeight;
}

parts.script?.addEventListener("scroll", () => {
  following = parts.script.scrollHeight - parts.script.scrollTop - parts.script.clientHeight < 40;
});

onKey("r", () => bead && mayAct() && ordersFor(bead, run).includes("retry") && give("retry", { bead: id }));

let last = null;
subscribe((state) => {
  run = state.run;
  const now = state.beads.find((one) => one.id === id);
  if (!now) return;
  bead = now;
  // Attempts, verdicts and the diff come with the page: fetch it anew when one of them is over.
  const over = JSON.stringify([now.attempts.length, now.status, now.pull_request]);
  if (last !== null && last !== over && !document.querySelector("dialog[open]")) location.reload();
  last = over;
  show();
  script();
});
setInterval(() => !document.hidden && bead && laneOf(bead) === "running" && script(), 1500);
