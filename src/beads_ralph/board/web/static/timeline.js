// Who worked when: a row for every bead that was taken up, growing while the run goes on.

import { beadAddress, h, laneOf, mark, s, span, sync } from "./dom.js";
import { current, subscribe } from "./feed.js";
import "./shell.js";

const WIDE = 1000;
const box = document.getElementById("gantt");
let told = null;
let asking = false;
let again = false;

function ticks(length, most) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
  const step = steps.find((one) => length / one <= most) || 86400;
  const found = [];
  for (let at = 0; at <= length; at += step) found.push(at);
  return found;
}

function bar(one, begin, length, end) {
  const left = ((one.start - begin) / length) * WIDE;
  const until = one.end ?? end;
  const wide = Math.max(2, ((until - one.start) / length) * WIDE);
  return s("rect", { class: `${one.kind}${one.ok === false ? " bad" : ""}${one.end === null ? " now" : ""}`, x: left.toFixed(1), width: wide.toFixed(1), y: 4, height: 14, rx: 2 },
    s("title", {}, `${one.name}, attempt ${one.attempt || 1}: ${span(until - one.start)}${one.end === null ? ", still at it" : one.ok === false ? ", failed" : ""}`));
}

function row(one) {
  const { bead, spans, begin, length, end } = one;
  const whole = spans.length ? Math.max(...spans.map((part) => part.end ?? end)) - Math.min(...spans.map((part) => part.start)) : 0;
  const words = spans.map((part) => `${part.name} ${span((part.end ?? end) - part.start)}`).join(", ");
  return h("div", { class: "grow" },
    h("a", { href: beadAddress(bead.id), title: bead.title }, mark(laneOf(bead)), ` ${bead.number} ${bead.title}`),
    h("div", {}, s("svg", { viewBox: `0 0 ${WIDE} 22`, preserveAspectRatio: "none", role: "img", "aria-label": words },
      s("rect", { class: "track", width: WIDE, height: 14, y: 4, rx: 2 }), spans.map((part) => bar(part, begin, length, end)))),
    h("span", {}, span(whole)));
}

function show() {
  const state = current();
  if (!state || !told) return;
  const going = ["running", "paused", "draining"].includes(state.run.mode);
  const all = Object.values(told.beads).flat();
  if (!all.length) {
    box.replaceChildren(h("p", { class: "empty" }, "Nothing was worked on in this run yet."));
    return;
  }
  if (box.querySelector(".empty") || !box.firstChild) box.replaceChildren(h("div", { class: "grow axis" }), h("div", {}));
  const begin = Math.min(...all.map((one) => one.start));
  const end = going ? Date.now() / 1000 : Math.max(...all.map((one) => one.end ?? one.start));
  const length = Math.max(1, end - begin);
  const [axis, rows] = box.children;
  const marks = ticks(length, box.clientWidth < 700 ? 4 : 8).map((at) => {
    const one = h("span", {}, at ? span(at) : "start");
    one.style.left = `${(at / length) * 100}%`;
    return one;
  });
  axis.replaceChildren(h("span", {}), h("div", { class: "ticks" }, marks), h("span", {}, "in all"));
  const beads = state.beads.filter((bead) => told.beads[bead.id]?.length)
    .sort((one, other) => told.beads[one.id][0].start - told.beads[other.id][0].start);
  sync(rows, beads.map((bead) => ({ bead, spans: told.beads[bead.id], begin, length, end })), (one) => one.bead.id, row);
}

async function ask() {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  try {
    const answer = await fetch("/api/v1/timeline");
    if (answer.ok) told = await answer.json();
    show();
  } catch { /* the server is gone for now; the feed says so */ }
  asking = false;
  if (again) {
    again = false;
    setTimeout(ask, 1000);
  }
}

subscribe(() => ask());
setInterval(() => !document.hidden && ["running", "paused", "draining"].includes(current()?.run.mode) && show(), 2000);
