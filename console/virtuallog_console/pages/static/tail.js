// The live tail: adds rows that the server has made, and keeps a bounded number of them.
const tail = document.getElementById("tail");
const rows = tail.querySelector("[data-tail-rows]");
const bar = tail.querySelector("[data-tail-bar]");
const toggle = tail.querySelector("[data-tail-toggle]");
const status = tail.querySelector("[data-tail-status]");
const droppedNote = tail.querySelector("[data-tail-dropped]");
const most = Number(tail.dataset.rows);
const quiet = 3000; // milliseconds between two texts for screen readers
const again = 2000; // milliseconds until a tail that has ended is opened again
let next = tail.dataset.next; // a position may be too large for a number of JavaScript
let source = null;
let paused = false;
let dropped = 0, leftOut = 0, added = 0;
let said = 0, timer = null, retry = null;

const many = (count, noun) => `${count.toLocaleString("en")} ${noun}`;
const say = (text) => { clearTimeout(timer); timer = null; said = Date.now(); status.textContent = text; };

// How many entries came, at most every `quiet` milliseconds.
const report = () => {
  if (timer !== null) return;
  timer = setTimeout(() => {
    timer = null;
    if (paused) return;
    say(added === 1 ? `1 new entry; next position ${next}.` : `${many(added, "new entries")}; next position ${next}.`);
    added = 0;
  }, Math.max(0, said + quiet - Date.now()));
};

const add = (data) => {
  // Parsed in a document of its own, where nothing runs; the server has escaped all values.
  const made = new DOMParser().parseFromString(`<table><tbody>${data.rows}</tbody></table>`, "text/html").querySelector("tbody");
  for (const row of made.children) row.classList.add("new");
  rows.prepend(...made.children);
  while (rows.children.length > most) { rows.lastElementChild.remove(); dropped += 1; }
  leftOut += data.left_out;
  added += data.count;
  if (dropped || leftOut) {
    const parts = [];
    if (dropped) parts.push(`${many(dropped, dropped === 1 ? "row was" : "rows were")} dropped from the end of this page`);
    if (leftOut) parts.push(`${many(leftOut, leftOut === 1 ? "entry was" : "entries were")} left out, as the log was faster than this page`);
    droppedNote.textContent = parts.join("; ") + ".";
    droppedNote.hidden = false;
  }
};

const close = () => { source?.close(); source = null; clearTimeout(retry); };

const open = () => {
  close();
  source = new EventSource(`/entries/tail?from=${next}`);
  source.addEventListener("rows", (event) => {
    // Numbers beyond 2^53 keep their digits as text.
    next = /"next": (\d+)/.exec(event.data)[1];
    const data = JSON.parse(event.data);
    if (data.count || data.left_out) { add(data); report(); }
    else say(`Following from position ${next}.`);
  });
  source.addEventListener("ended", (event) => {
    next = /"next": (\d+)/.exec(event.data)[1];
    const data = JSON.parse(event.data);
    close();
    say(`The tail has ended at position ${next}: ${data.reason}.` + (data.again ? " It is opened again." : ""));
    if (data.again && !paused) retry = setTimeout(open, again);
  });
  source.addEventListener("error", () => {
    if (!source) return;
    const isOver = source.readyState === EventSource.CLOSED;
    say(`The console does not answer. The tail goes on at position ${next}.`);
    if (isOver) { close(); retry = setTimeout(open, again); }
  });
};

toggle.addEventListener("click", () => {
  paused = !paused;
  toggle.setAttribute("aria-pressed", String(paused));
  toggle.textContent = paused ? `Resume from ${next}` : "Pause";
  if (paused) { close(); say(`Paused at position ${next}.`); } else open();
});
bar.hidden = false;
open();
