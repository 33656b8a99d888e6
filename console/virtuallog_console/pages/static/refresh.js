// Puts a new version of a part of this page in the place of the old one, every some seconds. The server makes it; open details and the
// focus stay where they are. A page in the background is not renewed.
const part = document.querySelector("[data-refresh]");
const bar = document.querySelector("[data-refresh-bar]");
const toggle = bar.querySelector("[data-refresh-toggle]");
const status = bar.querySelector("[data-refresh-status]");
const period = Number(part.dataset.refresh) * 1000;
const patience = 20000;
let paused = false;
let failing = false;
let busy = false;

// The status is read out by screen readers: only changes of state are written to it.
const say = (text) => { if (status.textContent !== text) status.textContent = text; };
const state = () => paused ? "Updates are paused." : failing ? "The console does not answer; this is an old state." : `Updated every ${period / 1000} s.`;

const inUse = () => {
  const selection = getSelection();
  if (selection && !selection.isCollapsed && part.contains(selection.anchorNode)) return true;
  const focused = document.activeElement;
  return part.contains(focused) && focused.matches("input, select, textarea");
};

const renew = async () => {
  if (paused || busy || document.hidden || inUse()) return;
  busy = true;
  try {
    const answer = await fetch(location.pathname + location.search, { signal: AbortSignal.timeout(patience), headers: { Accept: "text/html" } });
    const found = answer.ok && new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
    failing = !found;
    if (found && !paused && !inUse()) replace(found);
  } catch {
    failing = true;
  }
  busy = false;
  say(state());
};

// Place of the focus: the link or summary with the same address or the same place among those of its kind.
const places = () => [...part.querySelectorAll("a, summary, pre, button")];
const replace = (found) => {
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const address = focused?.getAttribute("href");
  const place = focused ? places().indexOf(focused) : -1;
  const open = [...part.querySelectorAll("details[open]")].map((each) => each.id);
  part.replaceChildren(...found.childNodes);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (!focused) return;
  const candidates = places();
  const same = candidates.find((each) => address && each.getAttribute("href") === address);
  (same ?? candidates[place])?.focus({ preventScroll: true });
};

toggle.addEventListener("click", () => {
  paused = !paused;
  toggle.setAttribute("aria-pressed", String(paused));
  say(state());
  renew();
});
document.addEventListener("visibilitychange", renew);
bar.hidden = false;
say(state());
setInterval(renew, period);
