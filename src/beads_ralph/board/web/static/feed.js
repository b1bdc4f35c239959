// The live state: one stream, kept up by itself, whatever becomes of the server.

let state = null;
let lastSeen = "";
let stream = null;
let lost = false;
const listeners = new Set();
const watchers = new Set();

export const current = () => state;
export const isLost = () => lost;

export function subscribe(listener) {
  listeners.add(listener);
  if (state) listener(state, null);
}

export function watchConnection(watcher) {
  watchers.add(watcher);
}

function connected(is) {
  lost = !is;
  for (const watcher of watchers) watcher(is);
}

function tell(change) {
  for (const listener of listeners) listener(state, change);
}

function applied(before, change) {
  const { beads: changed = [], gone = [], order, ...rest } = change;
  const beads = new Map((before?.beads || []).map((bead) => [bead.id, bead]));
  for (const id of gone) beads.delete(id);
  for (const bead of changed) beads.set(bead.id, bead);
  const ids = order || [...beads.keys()];
  return { ...before, ...rest, beads: ids.map((id) => beads.get(id)).filter(Boolean) };
}

export function connect() {
  stream?.close();
  const address = lastSeen ? `/api/v1/events?last_event_id=${encodeURIComponent(lastSeen)}` : "/api/v1/events";
  stream = new EventSource(address);
  stream.addEventListener("open", () => connected(true));
  stream.addEventListener("state", (event) => {
    lastSeen = event.lastEventId;
    state = JSON.parse(event.data);
    tell(null);
  });
  stream.addEventListener("change", (event) => {
    lastSeen = event.lastEventId;
    const change = JSON.parse(event.data);
    state = applied(state, change);
    tell(change);
  });
  stream.addEventListener("error", () => {
    connected(false);
    // The browser tries again by itself, but not after an answer that was an error.
    if (stream.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  });
}

addEventListener("pagehide", () => stream?.close());
addEventListener("pageshow", (event) => event.persisted && connect());
