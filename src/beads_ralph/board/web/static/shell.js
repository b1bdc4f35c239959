// What every page has: the run at the top, the connection, keys, help.

import { age, count, day, h, money, span } from "./dom.js";
import { connect, subscribe, watchConnection } from "./feed.js";
import { button, give, mayAct } from "./actions.js";

const LOOKS = { running: "accent", paused: "warn", draining: "warn", dead: "bad", ended: "", none: "" };
const live = document.getElementById("live");
const strip = document.getElementById("run");

watchConnection((is) => {
  live.textContent = is ? "live" : "no connection, trying again";
  live.classList.toggle("off", !is);
});

function figure(value, name) {
  return value === "" || value === null || value === undefined ? null : h("span", {}, h("b", {}, value), ` ${name}`);
}

function budget(run) {
  if (run.cost_usd === null && run.budget_usd === null) return null;
  return figure(money(run.cost_usd ?? 0) + (run.budget_usd ? ` of ${money(run.budget_usd)}` : ""), "spent");
}

function expected(forecast) {
  if (!forecast) return null;
  const title = `8 of 10 times between ${day(forecast.earliest)} and ${day(forecast.latest)}, by ${forecast.attempts} attempts of the past`;
  return h("span", { class: "expected", title }, "done about ", h("b", {}, day(forecast.done_at)));
}

function meter(state) {
  const total = state.beads.length || 1;
  const done = state.beads.filter((bead) => bead.status === "closed").length;
  const blocked = state.beads.filter((bead) => bead.status === "blocked").length;
  const running = state.running.length;
  const parts = { done, running, blocked, rest: total - done - running - blocked };
  const words = `${done} of ${state.beads.length} done, ${running} at work, ${blocked} blocked`;
  const bar = h("div", { class: "meter", role: "img", "aria-label": words, title: words });
  for (const [name, value] of Object.entries(parts)) {
    if (value <= 0) continue;
    const part = h("i", { class: name });
    part.style.flexGrow = value;
    bar.append(part);
  }
  return bar;
}

function orders(run) {
  if (run.mode === "running") return [button("pause"), button("stop")];
  if (run.mode === "paused") return [button("resume", {}, true), button("stop")];
  return [];
}

let shown = "";
function showRun(state) {
  const run = state.run;
  const now = JSON.stringify([run, state.running.length, state.beads.map((bead) => bead.status)]);
  if (now === shown) return;
  shown = now;
  const done = state.beads.filter((bead) => bead.status === "closed").length;
  const going = ["running", "paused", "draining"].includes(run.mode);
  const time = going ? age(run.started_at) : run.seconds ? span(run.seconds) : null;
  const focused = document.activeElement?.dataset?.order;
  strip.replaceChildren(
    h("span", { class: `pill ${run.mode === "ended" && run.end === "done" ? "good" : LOOKS[run.mode] || ""}` }, run.mode === "none" ? "no run yet" : run.mode),
    h("span", { class: "words" }, run.words === run.mode ? "" : run.words),
    h("div", { class: "figures" },
      figure(`${done}/${state.beads.length}`, "done"),
      going ? figure(`${state.running.length}${run.parallel ? `/${run.parallel}` : ""}`, "at work") : null,
      time ? h("span", {}, h("b", {}, time)) : null,
      expected(run.forecast),
      figure(count(run.tokens), "tokens"), budget(run)),
    h("div", { class: "buttons acts" }, orders(run)),
    meter(state));
  if (focused) strip.querySelector(`[data-order="${focused}"]`)?.focus();
  const waiting = state.attention.length;
  document.title = document.title.replace(/^\(\d+\) /, "").replace(/^/, waiting ? `(${waiting}) ` : "");
}

// --- keys ---

const KEYS = [
  ["j  k", "next, previous"], ["Enter", "open"], ["/", "search"], ["Esc", "leave the search, close"],
  ["l", "lanes or list"], ["p", "pause or resume the run"], ["x", "stop the run"], ["r", "retry the chosen bead"],
  ["g b", "board"], ["g w", "graph"], ["g t", "timeline"], ["g r", "runs"], ["g a", "analysis"], ["?", "these keys"],
];
const handlers = new Map();
let state = null;
let going = false;

// A page's own meaning of a key.
export function onKey(key, handler) {
  handlers.set(key, handler);
}

function help() {
  const box = h("dialog", { "aria-label": "Keys" }, h("h2", {}, "Keys"),
    h("dl", { class: "keys" }, KEYS.flatMap(([key, words]) => [h("dt", {}, key.split("  ").map((one) => [h("kbd", {}, one), " "])), h("dd", {}, words)])),
    h("form", { method: "dialog", class: "buttons" }, h("button", { class: "button main" }, "Close")));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}

function steer(key) {
  if (!mayAct() || !state) return;
  const mode = state.run.mode;
  if (key === "p" && mode === "running") give("pause");
  if (key === "p" && mode === "paused") give("resume");
  if (key === "x" && ["running", "paused"].includes(mode)) give("stop");
}

addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select");
  if (event.key === "Escape" && typing) typing.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (going) {
    going = false;
    document.querySelector(`[data-go="${CSS.escape(event.key)}"]`)?.click();
    return;
  }
  const search = document.getElementById("search");
  if (event.key === "/" && search) {
    event.preventDefault();
    search.focus();
    search.select();
  } else if (event.key === "g") going = true;
  else if (event.key === "?") help();
  else if (handlers.has(event.key)) handlers.get(event.key)(event);
  else if (event.key === "p" || event.key === "x") steer(event.key);
});

document.getElementById("help")?.addEventListener("click", help);
subscribe((now) => {
  state = now;
  if (strip) showRun(now);
});
connect();
