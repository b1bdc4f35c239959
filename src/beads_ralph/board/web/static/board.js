// The board: what needs a person, then every bead in lanes or as a list.

import { LANES, age, beadAddress, clock, count, h, laneOf, mark, money, pipeline, sync } from "./dom.js";
import { subscribe } from "./feed.js";
import { button, give, mayAct, ordersFor } from "./actions.js";
import { onKey } from "./shell.js";

const SHOWN = 60;
const KINDS = {
  interrupted: ["Interrupted", "bad"], stalled: ["Stalled", "bad"], budget: ["Budget", "bad"], person: ["For a person", ""],
  gate_red: ["Gate red", "bad"], blocked: ["Blocked", "bad"], failed_twice: ["Failed twice", ""],
  limited: ["Limited", ""], plan_differs: ["Plan differs", ""], unreadable: ["Unreadable", "bad"], flagged: ["Look at", ""],
};
const parts = Object.fromEntries(["attention", "beads", "filters", "search", "views", "trouble"].map((id) => [id, document.getElementById(id)]));
let state = null;
let view = localStorage.getItem("view") || "lanes";
let filter = "all";
let words = "";
const whole = new Set();

// --- what needs a person ---

function alert(one) {
  const [name, look] = KINDS[one.kind] || [one.kind, ""];
  const bead = state.beads.find((row) => row.id === one.bead);
  return h("li", { class: `alert ${look}` },
    h("div", { class: "row" },
      h("span", { class: `pill ${look || "warn"}` }, name),
      bead ? h("a", { href: beadAddress(bead.id) }, `${bead.number ? `${bead.number} ` : ""}${bead.title}`) : one.bead ? h("b", {}, one.bead) : null,
      h("span", { class: "when" }, one.until ? `until ${clock(one.until)}` : age(one.since))),
    h("p", {}, one.text),
    h("div", { class: "row" },
      one.command ? h("code", {}, one.command) : null,
      h("span", { class: "buttons acts" }, one.orders.slice(0, 2).map((order, at) => button(order, { bead: one.bead }, at === 0)))));
}

function showAttention() {
  const rows = state.attention;
  parts.attention.hidden = rows.length === 0;
  if (!rows.length) return parts.attention.replaceChildren();
  if (!parts.attention.firstChild) parts.attention.append(h("h2", {}), h("ul", {}));
  const [head, list] = parts.attention.children;
  head.replaceChildren("Needs you", h("span", { class: "pill warn" }, String(rows.length)));
  sync(list, rows, (one) => JSON.stringify([one.kind, one.bead, one.text]), alert);
}

// --- a bead ---

// Beads by their short numbers, as the plan has them.
function told(wait) {
  if (wait.kind !== "bead" || !wait.ids.length) return wait.text;
  const number = (id) => state.beads.find((bead) => bead.id === id)?.number || id;
  return `waits for ${wait.ids.map(number).join(", ")}`;
}

const stageOf = (bead) => bead.stage.replace(/ \(.*\)$/, "");

function why(bead, lane) {
  if (lane === "blocked") return bead.reason || bead.last_failure;
  if (lane === "running") return bead.last_failure && `before: ${bead.last_failure}`;
  if (lane === "done") return "";
  return bead.waits.map(told).join("; ");
}

function facts(bead, lane) {
  const tries = bead.attempt > 1 || lane === "running" ? `attempt ${bead.attempt}${bead.max_attempts ? `/${bead.max_attempts}` : ""}` : "";
  const who = [bead.program, bead.model].filter(Boolean).join(" · ");
  return [
    lane === "running" ? h("span", {}, stageOf(bead)) : null,
    lane === "running" && who ? h("span", {}, who) : null,
    lane === "running" && bead.host ? h("span", { class: "host", title: "the machine that it is worked on" }, `on ${bead.host}`) : null,
    tries ? h("span", {}, tries) : null,
    lane === "running" ? age(bead.since) : null,
    bead.tokens ? h("span", {}, `${count(bead.tokens)} tokens`) : null,
    bead.cost_usd ? h("span", {}, money(bead.cost_usd)) : null,
    lane === "done" && bead.standing ? h("span", {}, bead.standing) : null,
  ];
}

function card(bead) {
  const lane = laneOf(bead);
  return h("a", { class: `card ${lane}`, href: beadAddress(bead.id), "data-bead": bead.id },
    h("div", { class: "line" }, mark(lane), bead.number ? h("span", { class: "num" }, bead.number) : null, h("span", { class: "title" }, bead.title)),
    lane === "done" || lane === "waiting" || lane === "ready" ? null : pipeline(bead),
    h("div", { class: "meta" }, facts(bead, lane), bead.critical && lane !== "done" ? h("span", { class: "crit", title: "on the critical path" }, "▬ critical") : null),
    lane === "running" && bead.last_activity ? h("div", { class: "doing", title: bead.last_activity }, bead.last_activity) : null,
    why(bead, lane) ? h("div", { class: "why" }, why(bead, lane)) : null);
}

function row(bead) {
  const lane = laneOf(bead);
  return h("tr", { "data-bead": bead.id },
    h("td", {}, mark(lane)),
    h("td", { class: "mono" }, bead.number),
    h("td", {}, h("a", { class: "title", href: beadAddress(bead.id) }, bead.title), why(bead, lane) ? h("div", { class: "why" }, why(bead, lane)) : null),
    h("td", { class: "wide" }, lane === "running" ? stageOf(bead) : LANES[lane].toLowerCase()),
    h("td", { class: "wide" }, [bead.program, bead.model].filter(Boolean).join(" · ")),
    h("td", { class: "doing wide", title: bead.last_activity }, lane === "running" ? bead.last_activity : ""),
    h("td", { class: "n" }, bead.attempt ? `${bead.attempt}${bead.max_attempts ? `/${bead.max_attempts}` : ""}` : ""),
    h("td", { class: "n" }, lane === "running" ? age(bead.since) : ""),
    h("td", { class: "n wide" }, count(bead.tokens)), h("td", { class: "n" }, money(bead.cost_usd)));
}

// --- all of them ---

const ORDER = Object.keys(LANES);

function found(bead) {
  if (filter !== "all" && laneOf(bead) !== filter) return false;
  const text = [bead.id, bead.number, bead.title, bead.branch, bead.team, bead.program, bead.model, bead.stage].join(" ").toLowerCase();
  return words.split(/\s+/).every((word) => text.includes(word));
}

function sorted(beads) {
  const rank = new Map([...state.running, ...state.next, ...state.done].map((id, at) => [id, at]));
  return [...beads].sort((one, other) => ORDER.indexOf(laneOf(one)) - ORDER.indexOf(laneOf(other)) || (rank.get(one.id) ?? 1e9) - (rank.get(other.id) ?? 1e9));
}

function cut(beads, name) {
  return whole.has(name) || beads.length <= SHOWN ? beads : beads.slice(0, SHOWN);
}

function rest(beads, name) {
  const left = beads.length - cut(beads, name).length;
  return left > 0 ? h("button", { type: "button", class: "button more", onclick: () => { whole.add(name); show(); } }, `${left} more`) : null;
}

function showLanes(beads) {
  if (parts.beads.dataset.view !== "lanes") parts.beads.replaceChildren(h("div", { class: "lanes", tabindex: "0", role: "group", "aria-label": "Lanes" }));
  parts.beads.dataset.view = "lanes";
  const lanes = parts.beads.firstChild;
  const shown = ORDER.map((name) => [name, beads.filter((bead) => laneOf(bead) === name)]).filter(([name, rows]) => rows.length || (name === "running" && filter === "all" && !words && ["running", "paused", "draining"].includes(state.run.mode)));
  const kept = new Map([...lanes.children].map((lane) => [lane.dataset.lane, lane]));
  shown.forEach(([name, rows]) => {
    let lane = kept.get(name);
    if (!lane) lane = h("section", { class: "lane", "data-lane": name, "aria-label": LANES[name] }, h("h2", {}), h("div", { class: "cards" }));
    kept.delete(name);
    lanes.append(lane);
    lane.children[0].replaceChildren(h("span", {}, LANES[name]), h("span", {}, String(rows.length)));
    sync(lane.children[1], cut(rows, name), (bead) => bead.id, card);
    lane.querySelector(".more")?.remove();
    const more = rest(rows, name);
    if (more) lane.append(more);
  });
  for (const gone of kept.values()) gone.remove();
}

function showList(beads) {
  if (parts.beads.dataset.view !== "list") {
    const names = [["", ""], ["No.", ""], ["Bead", ""], ["Stage", "wide"], ["Agent", "wide"], ["Last did", "wide"], ["Try", "n"], ["Age", "n"], ["Tokens", "n wide"], ["Cost", "n"]];
    const head = names.map(([name, look]) => h("th", { class: look, scope: "col" }, name || h("span", { class: "sr" }, "State")));
    parts.beads.replaceChildren(h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "List" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}))), h("div", {}));
  }
  parts.beads.dataset.view = "list";
  sync(parts.beads.querySelector("tbody"), cut(beads, "list"), (bead) => bead.id, row);
  const more = rest(beads, "list");
  parts.beads.children[1].replaceChildren(...(more ? [more] : []));
}

function showFilters() {
  const counts = { all: state.beads.length };
  for (const bead of state.beads) counts[laneOf(bead)] = (counts[laneOf(bead)] || 0) + 1;
  const names = ["all", ...ORDER.filter((name) => counts[name] || name === filter)];
  const now = JSON.stringify([names, names.map((name) => counts[name]), filter, view]);
  if (parts.filters.dataset.now === now) return;
  parts.filters.dataset.now = now;
  parts.filters.replaceChildren(...names.map((name) => h("button", {
    type: "button", class: "chip", "aria-pressed": String(name === filter), onclick: () => { filter = name; show(); },
  }, `${name === "all" ? "All" : LANES[name]} ${counts[name] || 0}`)));
  for (const one of parts.views.children) one.setAttribute("aria-pressed", String(one.dataset.view === view));
}

function showTrouble() {
  const run = state.run;
  const told = [run.problem && `The store cannot be read now: ${run.problem}`,
    run.broken_lines && `${run.broken_lines} line${run.broken_lines > 1 ? "s" : ""} of the journal cannot be read and ${run.broken_lines > 1 ? "are" : "is"} left out.`].filter(Boolean);
  if (parts.trouble.dataset.now === told.join()) return;
  parts.trouble.dataset.now = told.join();
  parts.trouble.replaceChildren(...told.map((text) => h("p", { class: "note", role: "alert" }, text)));
}

function show() {
  if (!state) return;
  showTrouble();
  showAttention();
  showFilters();
  const beads = sorted(state.beads.filter(found));
  if (beads.length) (view === "lanes" ? showLanes : showList)(beads);
  else {
    parts.beads.dataset.view = "";
    const text = state.beads.length ? "No bead matches." : "There are no beads yet. Compile a plan: beads-ralph mason plan.md";
    parts.beads.replaceChildren(h("p", { class: "empty" }, text));
  }
  choose(chosen);
}

// --- keys ---

let chosen = "";

function places() {
  return [...parts.beads.querySelectorAll("[data-bead]")];
}

function choose(id, far = false) {
  chosen = id;
  for (const one of places()) {
    const is = one.dataset.bead === id;
    one.classList.toggle("selected", is);
    if (is && far) {
      one.scrollIntoView({ block: "nearest", inline: "nearest" });
      (one.matches("a") ? one : one.querySelector("a")).focus({ preventScroll: true });
    }
  }
}

function step(by) {
  const ids = places().map((one) => one.dataset.bead);
  if (!ids.length) return;
  const at = ids.indexOf(chosen);
  choose(ids[at < 0 ? 0 : Math.min(ids.length - 1, Math.max(0, at + by))], true);
}

function setView(name) {
  view = name;
  localStorage.setItem("view", view);
  show();
}

onKey("j", () => step(1));
onKey("k", () => step(-1));
onKey("l", () => setView(view === "lanes" ? "list" : "lanes"));
onKey("Enter", (event) => {
  if (chosen && !event.target.closest("a, button")) location.href = beadAddress(chosen);
});
onKey("r", () => {
  const bead = state?.beads.find((one) => one.id === chosen);
  if (bead && mayAct() && ordersFor(bead, state.run).includes("retry")) give("retry", { bead: bead.id });
});
for (const one of parts.views.children) one.addEventListener("click", () => setView(one.dataset.view));
parts.search.addEventListener("input", () => {
  words = parts.search.value.trim().toLowerCase();
  show();
});
subscribe((now) => {
  state = now;
  show();
});
