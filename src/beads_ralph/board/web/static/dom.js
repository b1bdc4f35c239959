// Building elements from data. Texts are only ever set as text: nothing that an agent wrote becomes markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, properties, ...children) => filled(document.createElement(tag), properties, children);
export const s = (tag, properties, ...children) => filled(document.createElementNS(SVG, tag), properties, children);

// Make the children of an element those of `items`, keeping the elements whose data did not change.
export function sync(parent, items, key, make) {
  const kept = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let element = kept.get(name);
    if (!element || element.shown !== item) {
      const fresh = make(item);
      fresh.dataset.key = name;
      fresh.shown = item;
      if (element) {
        const focused = element.contains(document.activeElement);
        if (place === element) place = element.nextElementSibling;
        element.replaceWith(fresh);
        if (focused) (fresh.matches("a,button") ? fresh : fresh.querySelector("a,button"))?.focus({ preventScroll: true });
      }
      element = fresh;
    }
    kept.delete(name);
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
  }
  for (const gone of kept.values()) gone.remove();
}

// --- words ---

export const money = (value) => (value === null || value === undefined ? "" : `$${value.toFixed(value < 10 ? 2 : 0)}`);

export function count(value) {
  if (value === null || value === undefined) return "";
  if (value < 1000) return String(value);
  return value < 1e6 ? `${(value / 1e3).toFixed(value < 1e4 ? 1 : 0)}k` : `${(value / 1e6).toFixed(1)}M`;
}

export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${String(whole % 60).padStart(2, "0")}s`;
  return `${Math.floor(whole / 3600)}h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")}m`;
}

export const since = (moment) => span((Date.now() - Date.parse(moment)) / 1000);
// With the day where that is not today.
export function day(moment) {
  const at = new Date(moment);
  return at.toDateString() === new Date().toDateString() ? clock(moment) : `${at.toLocaleDateString([], { weekday: "short" })} ${clock(moment)}`;
}

export const clock = (moment) => new Date(moment).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

// An age that goes on by itself; one timer serves them all.
export const age = (moment, before = "") =>
  moment ? h("time", { datetime: moment, "data-age": before }, before + since(moment)) : null;

setInterval(() => {
  if (document.hidden) return;
  for (const element of document.querySelectorAll("time[data-age]")) {
    const text = element.dataset.age + since(element.dateTime);
    if (element.textContent !== text) element.textContent = text;
  }
}, 1000);

// --- how a bead stands ---

const GLYPHS = { running: "▶", done: "✓", blocked: "✗", ready: "○", parked: "◷", waiting: "·" };
export const LANES = {
  blocked: "Blocked", running: "At work", ready: "Ready", parked: "Parked", waiting: "Waiting", done: "Done",
};

export function laneOf(bead) {
  if (bead.status === "closed") return "done";
  if (bead.lane === "running") return "running";
  if (bead.status === "blocked") return "blocked";
  if (bead.waits.some((wait) => wait.kind === "limit")) return "parked";
  return bead.waits.some((wait) => wait.kind !== "run") ? "waiting" : "ready";
}

export const mark = (lane) =>
  h("span", { class: `glyph ${lane}` }, h("span", { "aria-hidden": "true" }, GLYPHS[lane]), h("span", { class: "sr" }, LANES[lane]));
export const glyph = (lane) => GLYPHS[lane];

export const beadAddress = (id) => `/beads/${encodeURIComponent(id)}`;

export function pipeline(bead) {
  if (!bead.pipeline.length) return null;
  const words = bead.pipeline.map((stage) => `${stage.name}: ${{ waits: "to come", now: "now", done: "done", failed: "failed" }[stage.state]}`);
  return h("div", { class: "pipe", role: "img", "aria-label": words.join(", "), title: words.join(" · ") },
    bead.pipeline.map((stage) => h("span", { class: stage.state })));
}
