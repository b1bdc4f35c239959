// What waits for what: waves from left to right, live, zoomed and moved with mouse, fingers or keys.

import { beadAddress, glyph, h, laneOf, LANES, s } from "./dom.js";
import { subscribe } from "./feed.js";
import { onKey } from "./shell.js";

const BOX = { width: 190, height: 40 };
const GAP = { x: 76, y: 12 };
const TALLEST = 24;
const FAR = 0.42;

const stage = document.getElementById("stage");
const search = document.getElementById("search");
const svg = s("svg", { role: "group", "aria-label": "The graph of beads, wave by wave" });
const world = s("g");
svg.append(world);
stage.append(svg);
let state = null;
let drawn = "";
let extent = { width: 1, height: 1 };
const nodes = new Map();
const edges = [];
let eye = { x: 0, y: 0, scale: 1 };
let moved = false;

// --- places ---

// Beads of a wave stand near what they wait for; a tall wave gets several columns.
function places(beads) {
  const known = new Map(beads.map((bead) => [bead.id, bead]));
  const waves = new Map();
  for (const bead of beads) {
    if (!waves.has(bead.wave)) waves.set(bead.wave, []);
    waves.get(bead.wave).push(bead);
  }
  const found = new Map();
  const bands = [];
  let x = 0;
  for (const wave of [...waves.keys()].sort((one, other) => (one || 1e9) - (other || 1e9))) {
    const rows = waves.get(wave);
    const wanted = new Map(rows.map((bead, at) => {
      const before = bead.depends_on.filter((id) => known.has(id) && found.has(id)).map((id) => found.get(id).y);
      return [bead.id, before.length ? before.reduce((sum, y) => sum + y, 0) / before.length : at * (BOX.height + GAP.y)];
    }));
    rows.sort((one, other) => wanted.get(one.id) - wanted.get(other.id));
    const columns = Math.ceil(rows.length / TALLEST);
    const tall = Math.ceil(rows.length / columns);
    rows.forEach((bead, at) => found.set(bead.id, {
      x: x + Math.floor(at / tall) * (BOX.width + 18), y: (at % tall) * (BOX.height + GAP.y), tall,
    }));
    const width = columns * (BOX.width + 18) - 18;
    bands.push({ wave, x, width, count: rows.length });
    x += width + GAP.x;
  }
  const height = Math.max(1, ...[...found.values()].map((place) => place.tall)) * (BOX.height + GAP.y);
  for (const place of found.values()) place.y += (height - place.tall * (BOX.height + GAP.y)) / 2;
  extent = { width: Math.max(1, x - GAP.x), height: height + 30 };
  return { found, bands, height };
}

// --- drawing ---

const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function edge(from, to, critical, ids) {
  const [x1, y1, x2, y2] = [from.x + BOX.width, from.y + BOX.height / 2, to.x, to.y + BOX.height / 2];
  const bend = Math.max(24, (x2 - x1) / 2);
  const line = s("path", { class: `edge${critical ? " critical" : ""}`, d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
  edges.push({ line, ids });
  return line;
}

function node(bead, place) {
  const box = s("a", { class: "node", href: beadAddress(bead.id), transform: `translate(${place.x} ${place.y})`, "data-bead": bead.id },
    s("title", {}), s("rect", { width: BOX.width, height: BOX.height, rx: 7 }),
    s("text", { class: "mark", x: 10, y: 25, "aria-hidden": "true" }),
    s("text", { class: "num", x: 28, y: 16 }, bead.number || bead.id),
    s("text", { x: 28, y: 31 }, short(bead.title, 25)));
  for (const event of ["mouseenter", "focus"]) box.addEventListener(event, () => light(bead.id));
  for (const event of ["mouseleave", "blur"]) box.addEventListener(event, () => light(null));
  nodes.set(bead.id, box);
  return box;
}

function draw() {
  nodes.clear();
  edges.length = 0;
  const { found, bands, height } = places(state.beads);
  const critical = new Set(state.beads.filter((bead) => bead.critical).map((bead) => bead.id));
  world.replaceChildren(
    ...bands.flatMap(({ wave, x, width, count }) => [
      s("rect", { class: "band", x: x - 16, y: -34, width: width + 32, height: height + 46, rx: 12 }),
      s("text", { class: "wave", x, y: -14 }, `${wave ? `Wave ${wave}` : "In a circle"} · ${count}`)]),
    ...state.beads.flatMap((bead) => bead.depends_on.filter((id) => found.has(id)).map((id) =>
      edge(found.get(id), found.get(bead.id), critical.has(id) && critical.has(bead.id), [id, bead.id]))),
    ...state.beads.map((bead) => node(bead, found.get(bead.id))));
}

function paint() {
  for (const bead of state.beads) {
    const box = nodes.get(bead.id);
    const lane = laneOf(bead);
    const looks = `node ${lane}${bead.critical ? " critical" : ""}${box.classList.contains("lit") ? " lit" : ""}`;
    if (box.getAttribute("class") !== looks) box.setAttribute("class", looks);
    const said = `${bead.number} ${bead.title}: ${LANES[lane].toLowerCase()}${bead.critical ? ", on the critical path" : ""}`;
    if (box.firstChild.textContent !== said) {
      box.firstChild.textContent = said;
      box.children[2].textContent = glyph(lane);
    }
  }
}

// --- what hangs together ---

function reached(id, next) {
  const seen = new Set([id]);
  const left = [id];
  while (left.length) for (const other of next.get(left.pop()) || []) if (!seen.has(other)) { seen.add(other); left.push(other); }
  return seen;
}

function light(id) {
  svg.classList.toggle("faded", id !== null);
  const down = new Map();
  const up = new Map();
  for (const { ids: [from, to] } of edges) {
    down.set(from, [...(down.get(from) || []), to]);
    up.set(to, [...(up.get(to) || []), from]);
  }
  const lit = id === null ? new Set() : new Set([...reached(id, down), ...reached(id, up)]);
  for (const [name, box] of nodes) box.classList.toggle("lit", lit.has(name));
  for (const { line, ids } of edges) line.classList.toggle("lit", lit.has(ids[0]) && lit.has(ids[1]));
}

// --- looking around ---

function look() {
  world.setAttribute("transform", `translate(${eye.x} ${eye.y}) scale(${eye.scale})`);
  svg.classList.toggle("far", eye.scale < FAR);
}

function fit() {
  const { clientWidth: width, clientHeight: height } = stage;
  const scale = Math.min(1.25, (width - 60) / extent.width, (height - 70) / extent.height);
  eye = { scale, x: Math.max(30, (width - extent.width * scale) / 2), y: 42 * Math.min(1, scale) + Math.max(10, (height - extent.height * scale) / 2 - 20) };
  look();
}

// At first what goes on is in the middle, large enough to be read; all of it where there is room for that.
function begin() {
  fit();
  const at = state.beads.find((bead) => laneOf(bead) === "running") || state.beads.find((bead) => bead.status !== "closed");
  if (eye.scale < 0.6 && at) {
    eye.scale = 0.85;
    centre(at.id);
    const high = extent.height * eye.scale;
    if (high < stage.clientHeight) eye.y = (stage.clientHeight - high) / 2 + 30;
    moved = false;
    look();
  }
}

function zoom(by, x = stage.clientWidth / 2, y = stage.clientHeight / 2) {
  const scale = Math.min(3, Math.max(0.05, eye.scale * by));
  eye = { scale, x: x - (x - eye.x) * (scale / eye.scale), y: y - (y - eye.y) * (scale / eye.scale) };
  moved = true;
  look();
}

function centre(id) {
  const box = nodes.get(id);
  const [, x, y] = box.getAttribute("transform").match(/\(([-\d.]+) ([-\d.]+)\)/).map(Number);
  eye.scale = Math.max(eye.scale, 0.8);
  eye.x = stage.clientWidth / 2 - (x + BOX.width / 2) * eye.scale;
  eye.y = stage.clientHeight / 2 - (y + BOX.height / 2) * eye.scale;
  moved = true;
  look();
}

stage.addEventListener("wheel", (event) => {
  event.preventDefault();
  const box = stage.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.left, event.clientY - box.top);
}, { passive: false });

const fingers = new Map();
let dragged = 0;
stage.addEventListener("pointerdown", (event) => {
  if (event.target.closest("button")) return;
  fingers.set(event.pointerId, event);
  dragged = 0;
});
addEventListener("pointermove", (event) => {
  const before = fingers.get(event.pointerId);
  if (!before) return;
  const others = [...fingers.values()].filter((finger) => finger.pointerId !== event.pointerId);
  if (others.length) {
    const [other] = others;
    const apart = (finger) => Math.hypot(finger.clientX - other.clientX, finger.clientY - other.clientY) || 1;
    const box = stage.getBoundingClientRect();
    zoom(apart(event) / apart(before), (event.clientX + other.clientX) / 2 - box.left, (event.clientY + other.clientY) / 2 - box.top);
  } else {
    eye.x += event.clientX - before.clientX;
    eye.y += event.clientY - before.clientY;
    look();
  }
  dragged += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
  if (dragged > 4) stage.classList.add("moving");
  moved = moved || dragged > 4;
  fingers.set(event.pointerId, event);
});
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, (event) => {
  fingers.delete(event.pointerId);
  stage.classList.remove("moving");
});
stage.addEventListener("click", (event) => dragged > 4 && event.preventDefault(), true);
stage.addEventListener("dragstart", (event) => event.preventDefault());
stage.addEventListener("focusin", (event) => {
  const box = event.target.closest(".node");
  if (box && box.matches(":focus-visible")) centre(box.dataset.bead);
});

const tool = (text, name, act) => h("button", { type: "button", class: "button", "aria-label": name, title: name, onclick: act }, text);
stage.append(h("div", { class: "zoom" }, tool("−", "Farther", () => zoom(0.8)), tool("+", "Closer", () => zoom(1.25)),
  tool("Fit", "Fit: show all", () => { moved = false; fit(); })));
onKey("+", () => zoom(1.25));
onKey("-", () => zoom(0.8));
onKey("0", () => { moved = false; fit(); });

function step(by) {
  const ids = state ? state.beads.map((bead) => bead.id) : [];
  const at = ids.indexOf(document.activeElement?.dataset?.bead);
  if (ids.length) nodes.get(ids[(at + by + ids.length) % ids.length]).focus();
}
onKey("j", () => step(1));
onKey("k", () => step(-1));

function find() {
  const words = search.value.trim().toLowerCase();
  const hit = words && state?.beads.find((bead) => `${bead.number} ${bead.title} ${bead.id}`.toLowerCase().includes(words));
  light(hit ? hit.id : null);
  if (hit) centre(hit.id);
}
search.addEventListener("input", find);
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter") {
    const lit = state?.beads.find((bead) => `${bead.number} ${bead.title} ${bead.id}`.toLowerCase().includes(search.value.trim().toLowerCase()));
    if (lit) nodes.get(lit.id).focus();
  }
});

new ResizeObserver(() => !moved && state && begin()).observe(stage);
subscribe((now) => {
  state = now;
  const shape = JSON.stringify(now.beads.map((bead) => [bead.id, bead.wave, bead.depends_on, bead.critical, bead.title]));
  if (shape !== drawn) {
    drawn = shape;
    draw();
    if (!moved) begin();
  }
  paint();
});
