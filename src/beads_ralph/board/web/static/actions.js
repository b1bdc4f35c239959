// Orders of a person: asked once more where they cannot be taken back, told how they went.

import { h } from "./dom.js";

const token = document.querySelector("meta[name=action-token]").content;
export const mayAct = () => token !== "";

let shelf = null;
export function toast(text, bad = false) {
  if (!shelf) document.body.append((shelf = h("div", { class: "toasts", role: "status", "aria-live": "polite" })));
  const one = h("div", { class: bad ? "toast bad" : "toast" }, text);
  shelf.append(one);
  setTimeout(() => one.remove(), bad ? 12000 : 5000);
}

async function order(name, said) {
  const answer = await fetch(`/api/v1/actions/${name}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Beads-Ralph-Token": token },
    body: JSON.stringify(said),
  });
  const told = await answer.json();
  if (!told.success) throw new Error(`${told.error.message}. ${told.error.suggested_action}`);
  return told.data;
}

// What each order is called, what is said before it is given, and whether it needs words.
export const ORDERS = {
  pause: { name: "Pause", done: "Nothing more is started; what runs goes on." },
  resume: { name: "Resume", done: "The run goes on." },
  stop: { name: "Stop", danger: true, ask: "End the run when what is at work has finished?", done: "The run ends when what is at work has finished." },
  retry: { name: "Retry", done: "Open again: the next free place takes it." },
  release: { name: "Release", ask: "Give this bead back, although a run holds it that is no more?", done: "Given back." },
  close: { name: "Done", ask: "Is this step done? What waits for it goes on.", words: "A note for those who look at it later (may be empty)", done: "Closed." },
  approve: { name: "Approve", ask: "May this gate be passed? What waits for it goes on.", words: "A note for those who look at it later (may be empty)", done: "Approved; what waited for it goes on." },
  accept: { name: "Accept as done", danger: true, ask: "Close it on your word, without a proof? It is shown as accepted by you.", words: "Why is it done?", needed: true, done: "Accepted." },
  answer: { name: "Answer", ask: "Your answer is kept with the step, and what waits for it goes on.", words: "Your answer", needed: true, done: "Answered; the work goes on." },
};

export async function give(name, said = {}) {
  const kind = ORDERS[name];
  let words = "";
  if (kind.ask) {
    const answer = await asked(kind, said.bead);
    if (answer === null) return;
    words = answer;
  }
  try {
    const more = name === "answer" ? { answer: words } : { reason: words };
    await order(name, { ...said, ...(kind.words ? more : {}) });
    toast(kind.done);
  } catch (problem) {
    toast(problem.message || String(problem), true);
  }
}

function asked(kind, bead) {
  return new Promise((resolve) => {
    const field = kind.words ? h("textarea", { "aria-label": kind.words, placeholder: kind.words, required: kind.needed }) : null;
    const box = h("dialog", { "aria-label": kind.name },
      h("form", { method: "dialog" },
        h("h2", {}, bead ? `${kind.name}: ${bead}` : kind.name), h("p", {}, kind.ask), field,
        h("div", { class: "buttons" },
          h("button", { class: "button", type: "button", onclick: () => box.close("no") }, "Cancel"),
          h("button", { class: "button main", value: "yes" }, kind.name))));
    box.addEventListener("close", () => {
      box.remove();
      resolve(box.returnValue === "yes" ? (field ? field.value.trim() : "") : null);
    });
    document.body.append(box);
    box.showModal();
  });
}

export function button(name, said = {}, main = false) {
  const kind = ORDERS[name];
  const looks = ["button", main && "main", kind.danger && "danger"].filter(Boolean).join(" ");
  return h("button", { type: "button", class: looks, "data-order": name, onclick: (event) => {
    event.preventDefault();
    event.stopPropagation();
    give(name, said);
  } }, kind.name);
}

// The orders that fit a bead as it stands, the likeliest first.
export function ordersFor(bead, run) {
  const going = run && ["running", "paused", "draining"].includes(run.mode);
  if (bead.status === "blocked") return ["retry", "accept"];
  if (bead.status === "in_progress" && !going) return ["release"];
  if (bead.status === "closed") return bead.standing === "proven" ? [] : ["retry"];
  return bead.lane === "running" ? [] : ["accept"];
}
