// Everything works without this file. With it, times tick, pages follow what happens, notices disappear, charts explain
// themselves, and there are shortcuts and a command palette. It only ever puts in place what the server has rendered, or
// text. Hooks for templates:
//   data-live (with an id)  is replaced whenever the page is refreshed
//   data-key="g s"          a shortcut: follows the link, presses the button or focuses the field
//   data-command="Pause"    an action of the command palette: presses the button or follows the link
//   data-palette            opens the command palette
//   data-submits            a field whose form is sent when it changes; of a text field, a moment after typing
//   <title> in a drawing    becomes a popover: under the pointer, on focus, on touch, with the link of an <a> or data-href;
//                           data-href-label, there or around it, is the text of that link
//   data-bars="x text"      a line for each bar of a drawing; its text becomes such a popover
//   data-icon="play"        gets this icon when its menu opens
//   data-copy="text"        a button that copies the text; data-copy-of="id" the text of an element, data-copy-from="url" JSON
//   data-row="key"          a row that j and k move to; x selects it, o opens it: its data-open, or else its first link. Rows
//                           stay in place while somebody is on their list; without a key, the box or the run in it is one

const page = document.documentElement;
const form = document.getElementById("schedule-form");

// -- helpers --------------------------------------------------------------------------------------------------------

const byId = (id) => document.getElementById(id);

function fill(made, attributes, content) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...content);
  return made;
}

const make = (tag, attributes = {}, ...content) => fill(document.createElement(tag), attributes, content);
const draw = (tag, attributes, ...content) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, content);

// What the first picture of the page does not need waits until it is painted.
const afterPaint = (work) => { if (document.hidden) work(); else requestAnimationFrame(() => setTimeout(work)); };

const parse = async (answer) => new DOMParser().parseFromString(await answer.text(), "text/html");

const icon = (name) => draw("svg", { class: "icon", "aria-hidden": "true" }, draw("use", { href: `#i-${name}` }));

// Menus of rows get their icons when they open: hundreds would delay the first paint.
document.addEventListener("click", (event) => {
  for (const each of event.target.closest?.("summary")?.parentElement.querySelectorAll("[data-icon]") ?? []) {
    each.prepend(icon(each.dataset.icon));
    each.removeAttribute("data-icon");
  }
}, true);

// -- the viewer's zone --------------------------------------------------------------------------------------------

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const stored = new RegExp("(?:^|; )duetime_zone=([^;]*)").exec(document.cookie)?.[1];
if (zone && stored !== zone) {
  document.cookie = `duetime_zone=${zone}; path=/; max-age=31536000; samesite=strict`;
  const kept = document.cookie.includes("duetime_zone=");
  const shown = "zoneChosen" in page.dataset ? zone : page.dataset.zone;
  if (kept && "reloads" in page.dataset && shown !== zone) location.reload();
}

// -- times that tick ----------------------------------------------------------------------------------------------

const ahead = "now" in page.dataset ? Number(page.dataset.now) - Date.now() : 0; // of the server's clock
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function span(seconds) {
  const parts = [];
  for (const [size, unit] of UNITS) {
    const amount = Math.floor(seconds / size);
    seconds -= amount * size;
    if (amount || parts.length) parts.push(amount ? `${amount} ${unit}` : "");
  }
  return parts.slice(0, 2).filter(Boolean).join(" ");
}

function away(moment, counting) {
  const seconds = Math.trunc((moment - Date.now() - ahead) / 1000);
  if (seconds === 0) return "now";
  if (seconds > 0) return `in ${span(seconds)}`;
  return counting ? `overdue by ${span(-seconds)}` : `${span(-seconds)} ago`;
}

function tick() {
  for (const time of document.querySelectorAll("time.ticks")) {
    const text = away(Date.parse(time.dateTime), time.classList.contains("countdown"));
    if (time.textContent !== text) time.textContent = text;
  }
  for (const bar of document.querySelectorAll("progress[data-usual]")) {
    bar.value = Math.min(95, (Date.now() + ahead - Date.parse(bar.dataset.began)) / 10 / Number(bar.dataset.usual));
  }
}
setInterval(tick, 1000);

// -- pages that follow what happens -------------------------------------------------------------------------------

const EVENTS = ["schedule.created", "schedule.changed", "schedule.deleted", "run.fired", "run.ended", "gap"];
const PAUSE = Number(page.dataset.pause ?? 700); // milliseconds between two refreshes, however much happens
const SHARE = 5; // and so many times as long as the last one took: who asks much of the server, asks seldom
const POLL = Math.max(PAUSE, 5000);
const BEAT = Math.max(PAUSE, 15000); // without any event: workers beat, and the present moves on
const live = document.querySelector("[data-live]:not(#alarms, #pages)") !== null;
const pulse = byId("pulse");
const seen = new Map(); // what was put in place last, by id
let source = null;
let polling = 0;
let due = 0;
let busy = false;
let again = false;
let took = 0;

// A part of the page in which somebody writes stays as it is.
function isEdited(part) {
  const fields = part.querySelectorAll("textarea, input:not([type=hidden], [type=checkbox], [type=radio])");
  return [...fields].some((each) => each === document.activeElement || each.value !== each.defaultValue);
}

async function refresh() {
  if (busy) { again = true; return; }
  if (!live || document.hidden || document.querySelector("dialog[open]")) return;
  busy = true;
  const began = performance.now();
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    connected();
    if (answer.status === 401) { rest(); location.reload(); return; }
    if (answer.ok) place(await parse(answer));
  } catch { disconnected(); /* the next event or poll tries again */ }
  busy = false;
  took = performance.now() - began;
  if (again) { again = false; soon(); }
}

function place(fresh) {
  if (document.querySelector("dialog[open]")) return;
  for (const old of document.querySelectorAll("[data-live][id]")) {
    const next = fresh.getElementById(old.id), card = old.closest("section");
    if (card) card.hidden = !next; // a section that the page no longer has would stay as it was
    if (!next || isEdited(old)) continue;
    if (isHeld(old)) hold(old, next);
    else if (still(next) !== seen.get(old.id)) replace(old, next);
  }
  tick();
}

// Times that tick differ at every look and are no news.
const still = (part) => part.innerHTML.replace(/(<time [^>]*ticks[^>]*>)[^<]*/g, "$1");

function replace(old, next) {
  seen.set(old.id, still(next));
  regionOf(old).querySelector("button.changes")?.remove();
  keeping(old, () => old.replaceChildren(...next.childNodes));
}

// Changes a part of the page and keeps what is open, selected and focused in it.
function keeping(part, change) {
  const open = [...part.querySelectorAll("details[open][id]")].map((each) => each.id);
  const ticked = new Set([...part.querySelectorAll("input:checked")].map((box) => box.name + box.value));
  const row = part.querySelector(".at-row"), rowKey = row && keyOf(row);
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const key = part.contains(focused?.closest("[data-row]")) ? keyOf(focused.closest("[data-row]")) : null;
  const places = () => [...((key !== null && rowsByKey(part).get(key)) || part).querySelectorAll("a, button, input, summary")];
  const at = focused ? places().indexOf(focused) : -1;
  change();
  enhance(part);
  showTab(part);
  if (row) rowsByKey(part).get(rowKey)?.classList.add("at-row");
  for (const id of open) byId(id)?.setAttribute("open", "");
  if (ticked.size) for (const box of part.querySelectorAll("input[type=checkbox]")) box.checked = ticked.has(box.name + box.value);
  countSelected();
  if (at >= 0) places()[at]?.focus({ preventScroll: true });
}

// -- lists that hold still ------------------------------------------------------------------------------------------
// While the pointer or the keyboard is on a list, or a row is selected, no row moves, appears or disappears: only what is
// in the rows is renewed, and a button applies the rest.

const HOLDING = ":focus-visible, [data-row] input:checked, details.actions-menu[open]";
const regionOf = (part) => part.closest("section") ?? part;
const written = new WeakMap(); // what the server wrote into a cell, some of which this script has changed since

function isHeld(part) {
  const region = regionOf(part);
  return part.querySelector("[data-row]") !== null && (region.matches(":hover") || region.querySelector(HOLDING) !== null);
}

function keyOf(row) {
  const link = row.querySelector("a[href^='/runs/']") ?? row.querySelector("a");
  const time = link?.matches("[href^='/runs/']") ? "" : row.querySelector("time")?.dateTime;
  return row.dataset.row || row.querySelector("input[type=checkbox]")?.value || `${link?.getAttribute("href")} ${time ?? ""}`;
}

const rowsByKey = (part) => new Map([...part.querySelectorAll("[data-row]")].map((row) => [keyOf(row), row]));

function hold(old, next) {
  const before = rowsByKey(old), after = rowsByKey(next), places = [...before.keys()];
  for (const [key, row] of before) {
    row.classList.toggle("gone", !after.has(key));
    if (after.has(key)) renew(row, after.get(key));
  }
  const kept = [...after.keys()].filter((key) => before.has(key)).map((key) => places.indexOf(key));
  const number = before.size + after.size - kept.length - inOrder(kept); // gone, new, and moved past others
  seen.delete(old.id);
  offer(old, next, number);
}

function inOrder(numbers) {
  const best = numbers.map(() => 1);
  numbers.forEach((each, at) => { for (let before = 0; before < at; before++) if (numbers[before] < each) best[at] = Math.max(best[at], best[before] + 1); });
  return Math.max(0, ...best);
}

function renew(row, next) {
  if (row.querySelector(":active, details.actions-menu[open]")) return; // a click would miss what it was meant for
  row.className = [next.className, ...["at-row"].filter((name) => row.classList.contains(name))].join(" ");
  [...next.children].forEach((cell, at) => {
    const own = row.children[at], text = still(cell);
    if (!own || written.get(own) === text) return;
    written.set(own, text);
    if (still(own) !== text) keeping(own, () => own.replaceChildren(...cell.cloneNode(true).childNodes));
  });
}

function offer(part, next, number) {
  const region = regionOf(part);
  const button = region.querySelector("button.changes") ?? make("button", { type: "button", class: "changes", "data-key": "r", "data-command": "Apply the changes to the list", title: "Rows stay in place while you are on the list. Apply: r" });
  if (!number) { button.remove(); return; }
  button.textContent = number === 1 ? "1 change" : `${number} changes`;
  button.onclick = (event) => {
    replace(part, next);
    if (!event.detail) opener(currentRow() ?? part.querySelector("[data-row]"))?.focus();
  };
  if (!button.isConnected) (region.querySelector(".tools") ?? region).append(button);
}

// As soon as nobody is on a list any more, it catches up.
for (const name of ["pointerover", "focusin"]) document.addEventListener(name, () => {
  if (document.querySelector("button.changes") && ![...document.querySelectorAll("[data-live]")].some(isHeld)) soon();
});

function soon() {
  if (!due) due = setTimeout(() => { due = 0; refresh(); }, Math.max(PAUSE, SHARE * took));
}

function showState(text, still) {
  if (!pulse) return;
  pulse.hidden = !text;
  pulse.textContent = text;
  pulse.classList.toggle("still", still);
}

// -- a server that is gone ------------------------------------------------------------------------------------------

const CHECK = 20000;
let gone = null;

function disconnected() {
  if (gone) return;
  const since = new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
  gone = make("div", { class: "offline", role: "alert" }, `Not connected since ${since}. What you see may be out of date; reconnecting…`);
  document.body.prepend(gone);
  document.body.classList.add("is-offline");
  showState("Not connected", true);
}

function connected() {
  if (!gone) return;
  gone.remove();
  gone = null;
  document.body.classList.remove("is-offline");
  if (!source) showState("", true);
}

// Sending a form would replace the page, and what is selected or typed on it, by an error page of the browser.
document.addEventListener("submit", (event) => {
  if (!gone) return;
  event.preventDefault();
  notify("Not connected, so nothing was sent. Try again when the connection is back.");
});

async function check() {
  if (document.hidden) return;
  try { await fetch("/healthz", { cache: "no-store" }); connected(); } catch { disconnected(); }
}
if (!live && "now" in page.dataset) setInterval(check, CHECK);

// -- following ------------------------------------------------------------------------------------------------------

function follow() {
  if (!live || source || document.hidden) return;
  source = new EventSource("/api/v1/events");
  for (const name of EVENTS) source.addEventListener(name, soon);
  source.onopen = () => {
    clearInterval(polling);
    polling = setInterval(refresh, BEAT);
    showState("Live", false);
    soon(); // what happened since the page was made, and before anybody listened
  };
  source.onerror = () => {
    clearInterval(polling);
    polling = setInterval(refresh, POLL);
    showState("Reconnecting…", true);
    refresh(); // which finds out whether the server is gone
    if (source?.readyState === EventSource.CLOSED) { source = null; setTimeout(follow, POLL); }
  };
}

function rest() {
  // A browser has few connections for one server: a page that nobody sees gives its own back.
  source?.close();
  source = null;
  clearInterval(polling);
}

document.addEventListener("visibilitychange", () => { if (document.hidden) rest(); else { refresh(); follow(); } });
addEventListener("online", () => { refresh(); follow(); });
addEventListener("pagehide", rest);
addEventListener("pageshow", (event) => { if (event.persisted) { refresh(); follow(); } });
afterPaint(follow);

// -- the log of a run, which is read on as it grows ------------------------------------------------------------------

const LOG_WAIT = 20; // seconds that a request waits for more
const logShown = byId("log");

function addLog(answer) {
  const follows = logShown.scrollTop + logShown.clientHeight > logShown.scrollHeight - 40;
  for (const each of answer.log) {
    if (Number(logShown.dataset.attempt) !== each.attempt && (each.attempt > 1 || logShown.firstChild)) {
      logShown.append(make("div", { class: "log-note" }, `Attempt ${each.attempt}`));
    }
    logShown.dataset.attempt = each.attempt;
    if (each.left_out) logShown.append(make("div", { class: "log-note" }, `${each.left_out.toLocaleString("en")} bytes are left out here`));
    const time = make("time", { datetime: each.at }, each.at.slice(11, 19));
    logShown.append(make("div", { class: "log-part" }, time, make("pre", {}, each.text)));
  }
  if (answer.log.length) byId("no-log")?.remove();
  if (follows) logShown.scrollTop = logShown.scrollHeight;
}

async function readLog() {
  const asked = new URLSearchParams({ wait_seconds: LOG_WAIT, timezone: page.dataset.zone ?? zone });
  if (logShown.dataset.after) asked.set("after", logShown.dataset.after);
  let pause = 1000;
  try {
    if (document.hidden) throw new Error("nobody looks");
    const answer = await fetch(`${logShown.dataset.log}?${asked}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    const log = await answer.json();
    addLog(log);
    logShown.dataset.after = log.next ?? "";
    if (log.ended) { const none = byId("no-log"); if (none) none.textContent = "It has written nothing."; return; }
  } catch { pause = POLL; }
  setTimeout(readLog, pause);
}
if (logShown?.dataset.log) afterPaint(() => { logShown.scrollTop = logShown.scrollHeight; readLog(); });

// On a phone, the tabs are wider than the screen.
function showTab(within) {
  const tab = within.querySelector(".tabs [aria-current]");
  if (tab) tab.parentElement.scrollLeft = tab.offsetLeft - tab.parentElement.offsetLeft - 50;
}
afterPaint(() => showTab(document));

// -- selecting rows -------------------------------------------------------------------------------------------------

const boxes = () => [...document.querySelectorAll("#chosen [data-row] input[type=checkbox]")];

// Shows how many rows are selected; a box selects all of them, and buttons that act on a selection wait for one.
function countSelected() {
  const rows = boxes(), chosen = rows.filter((box) => box.checked).length, all = byId("choose-all");
  for (const place of document.querySelectorAll("[data-selected]")) place.textContent = `${chosen} selected`;
  for (const button of document.querySelectorAll("[data-needs-choice]")) button.disabled = !chosen;
  if (all) {
    all.checked = chosen > 0 && chosen === rows.length;
    all.indeterminate = chosen > 0 && !all.checked;
    all.hidden = !rows.length;
    if (all.parentElement.tagName === "LABEL") all.parentElement.hidden = all.hidden;
  }
  const matching = document.querySelector("input[name=matching]");
  if (matching && !chosen) matching.checked = false;
}

document.addEventListener("change", (event) => {
  if (event.target.id === "choose-all") for (const box of boxes()) box.checked = event.target.checked;
  if (event.target.closest("#chosen")) countSelected();
});
addEventListener("pageshow", countSelected);
countSelected();

// -- forms that are sent by themselves ------------------------------------------------------------------------------

const TYPING = 350;
const fields = ".filter select, [data-submits]";

function submits(field) {
  let typed = 0;
  const text = field.matches("input:not([type=checkbox], [type=radio])");
  field.addEventListener(text ? "input" : "change", () => {
    clearTimeout(typed);
    typed = setTimeout(() => { sessionStorage.setItem("focus", field.id); field.form.requestSubmit(); }, text ? TYPING : 0);
  });
}
for (const field of document.querySelectorAll(fields)) submits(field);
const typedIn = byId(sessionStorage.getItem("focus") ?? "");
sessionStorage.removeItem("focus");
if (typedIn?.matches(fields)) {
  typedIn.closest("details.filters")?.setAttribute("open", "");
  typedIn.focus({ preventScroll: true });
  if (typedIn.type === "search" || typedIn.type === "text") typedIn.setSelectionRange(typedIn.value.length, typedIn.value.length);
}

// -- notices that disappear -----------------------------------------------------------------------------------------

const STAYS = 6000;
const STAYS_WITH_MORE = 12000; // with a button, or with reasons to read

function vanish(toast) {
  const stays = toast.matches(".partly") || toast.querySelector("form") ? STAYS_WITH_MORE : STAYS;
  const wait = () => setTimeout(() => {
    if (toast.matches(":hover, :focus-within")) wait(); else toast.remove();
  }, stays);
  const close = make("button", { type: "button", class: "quiet close", "aria-label": "Close the notice" }, icon("close"));
  close.addEventListener("click", () => toast.remove());
  toast.append(close);
  wait();
}

function notify(text) {
  let toasts = document.querySelector(".toasts");
  if (!toasts) { toasts = make("div", { class: "toasts" }); byId("main")?.prepend(toasts); }
  const toast = make("div", { class: "notice toast" }, make("span", { role: "status" }, text));
  toasts.append(toast);
  vanish(toast);
}

document.querySelectorAll("[data-toast]").forEach(vanish);
if (new URLSearchParams(location.search).has("did")) {
  // So that reloading the page does not show the notice again.
  const shown = new URL(location.href);
  for (const name of "did number failed reasons notes warnings undo cancelled deleted broken changed".split(" ")) shown.searchParams.delete(name);
  history.replaceState(history.state, "", shown);
}

async function copied({ copy, copyOf, copyFrom }) {
  const lines = copyOf ? byId(copyOf).querySelectorAll(".log-part pre") : []; // without their times
  if (lines.length) return [...lines].map((each) => each.textContent).join("");
  if (copyOf) return byId(copyOf).textContent;
  if (!copyFrom) return copy;
  return JSON.stringify(await (await fetch(copyFrom)).json(), null, 2);
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-of], [data-copy-from]");
  if (!button) return;
  try { await navigator.clipboard.writeText(await copied(button.dataset)); notify("Copied."); } catch { notify("Copying is not allowed here."); }
});

// -- popovers of charts ---------------------------------------------------------------------------------------------

const tip = make("div", { class: "tip", role: "tooltip", id: "tip", hidden: true });
let tipped = null;
let hiding = 0;

function showTip(target) {
  clearTimeout(hiding);
  if (tipped === target) return;
  hideTip();
  tipped = target;
  const [first, ...more] = target.dataset.tip.split("\n");
  tip.replaceChildren(make("strong", {}, first), ...more.map((line) => make("div", {}, line)));
  const href = target.dataset.href ?? target.getAttribute("href");
  if (href) tip.append(make("a", { href }, target.closest("[data-href-label]")?.dataset.hrefLabel ?? "Open"));
  target.classList.add("tipped");
  target.setAttribute("aria-describedby", "tip");
  tip.hidden = false;
  const box = target.getBoundingClientRect();
  const width = tip.offsetWidth;
  const left = Math.min(Math.max(8, box.left + box.width / 2 - width / 2), innerWidth - width - 8);
  const above = box.top - tip.offsetHeight - 6;
  tip.style.left = `${left + scrollX}px`;
  tip.style.top = `${(above > 60 ? above : box.bottom + 6) + scrollY}px`;
}

function hideTip() {
  clearTimeout(hiding);
  tipped?.classList.remove("tipped");
  tipped?.removeAttribute("aria-describedby");
  tipped = null;
  tip.hidden = true;
}

function hideTipSoon() {
  clearTimeout(hiding);
  hiding = setTimeout(() => { if (!tip.matches(":hover, :focus-within")) hideTip(); }, 180);
}

let keyboard = false; // in use, so that every chart needs a stop of Tab

function enhance(within) {
  if (keyboard) for (const chart of within.querySelectorAll("svg:not(.icon)")) explain(chart);
}

// Popovers replace the browser's own, which neither a key nor a finger opens. A chart has them once somebody comes to it.
function explain(chart) {
  const bars = chart?.dataset.bars?.split("\n") ?? [], width = 100 - parseFloat(bars.at(-1));
  for (const bar of bars) chart.append(draw("rect", { class: "hit", x: parseFloat(bar), width, height: "100%" }, draw("title", {}, bar.replace(/^\S+ /, ""))));
  chart?.removeAttribute("data-bars");
  for (const title of chart?.querySelectorAll("title") ?? []) {
    const drawn = title.parentElement;
    drawn.dataset.tip = title.textContent;
    drawn.setAttribute("aria-label", title.textContent.replaceAll("\n", ", "));
    if (drawn.tagName !== "a") drawn.setAttribute("role", "img");
    drawn.setAttribute("tabindex", chart.querySelector("[data-tip][tabindex='0']") ? "-1" : "0");
    title.remove();
  }
}

if (document.querySelector("svg title, [data-live]")) {
  document.body.append(tip);
  document.addEventListener("keydown", () => { keyboard = true; enhance(document); }, { once: true, capture: true });
  document.addEventListener("pointerover", (event) => {
    const chart = event.target.closest?.("svg:not(.icon)");
    explain(chart);
    const target = (chart ? document.elementFromPoint(event.clientX, event.clientY) : event.target)?.closest?.("[data-tip]");
    if (target) showTip(target); else if (tipped && !event.target.closest?.(".tip")) hideTipSoon();
  });
  document.addEventListener("focusin", (event) => {
    explain(event.target.closest?.("svg"));
    const target = event.target.closest?.("[data-tip]");
    if (target) showTip(target); else if (tipped && !event.target.closest?.(".tip")) hideTip();
  });
  document.addEventListener("click", (event) => {
    const target = event.target.closest?.("[data-tip]");
    if (target && event.pointerType === "touch") event.preventDefault(); // a finger opens the popover, which has the link
    else if (target?.dataset.href && !target.matches("a")) location.assign(target.dataset.href);
  });
  document.addEventListener("keydown", (event) => {
    const at = document.activeElement?.closest?.("[data-tip]");
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (at?.dataset.href && event.key === "Enter" && !at.matches("a")) location.assign(at.dataset.href);
    if (!at || !step) return;
    const among = [...(at.closest("svg") ?? document).querySelectorAll("[data-tip]")];
    const next = among[among.indexOf(at) + step];
    if (next) { event.preventDefault(); next.setAttribute("tabindex", "0"); at.setAttribute("tabindex", "-1"); next.focus(); }
  });
}

// -- the command palette --------------------------------------------------------------------------------------------

// Actions of the current row and of the page come first, then pages whose name begins so, schedules and runs, and what is
// similar; messages about runs, which repeat names, come late, and actions last if only a name was typed.

const FITS = ["begins", "contains", "similar"];
const RANKS = { action: [0, 0, 5], page: [1, 3, 6], exact: 2, similar: 5, late: 7 };
let palette = null;
let row = null; // before it took the focus
let answer = { text: "", results: [] }; // of the server
let asking = null;
let chosen = false; // by the arrow keys

function commands() {
  const seen = new Set();
  const buttons = (where, rank) => [...document.querySelectorAll(where)]
    .filter((each) => !each.disabled && each.closest(".selection")?.checkVisibility() !== false && !each.closest("[data-row]"))
    .filter((each) => !seen.has(each.dataset.command) && seen.add(each.dataset.command))
    .map((each) => ({ label: each.dataset.command, rank, keys: each.dataset.key, run: () => each.click() }));
  const what = row?.querySelector("[aria-label^='Select ']")?.ariaLabel.slice(7) ?? opener(row)?.textContent.trim();
  const ofRow = [...row?.querySelectorAll("button[name], button[formaction]") ?? []]
    .map((each) => ({ label: each.ariaLabel ?? `${each.textContent.trim()} ${what}`, what, rank: "action", run: () => each.click() }));
  const links = [...document.querySelectorAll("#pages a, #menu ul a, header .button.primary, .tabs a[data-command]")];
  const pages = links.map((each) => ({ label: each.dataset.command ?? `Go to ${each.querySelector("span:not(.badge)")?.textContent ?? each.textContent.trim()}`, rank: "page", keys: each.dataset.key, go: each.href }));
  const help = { label: "Show keyboard shortcuts", rank: "page", keys: "?", run: showKeys };
  return [...ofRow, ...buttons("main [data-command]", "action"), ...pages, help, ...buttons("header [data-command]:not(a)", "page")];
}

const wordsOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

function fit(label, text) {
  const parts = wordsOf(label), words = wordsOf(text);
  if (words.every((word) => parts.some((part) => part.startsWith(word)))) return "begins";
  if (words.every((word) => label.toLowerCase().includes(word))) return "contains";
  return words.every((word) => parts.some((part) => isNear(word, part))) ? "similar" : null;
}

// One letter wrong, missing or too many, or two exchanged, in a word or in its beginning.
function isNear(word, part) {
  return part.startsWith(word) || (word.length > 2 && [-1, 0, 1].some((more) => hasOneMistake(word, part.slice(0, word.length + more))));
}

function hasOneMistake(word, part) {
  let start = 0, end = 0;
  while (start < word.length && word[start] === part[start]) start++;
  while (end < Math.min(word.length, part.length) - start && word.at(-1 - end) === part.at(-1 - end)) end++;
  const one = word.slice(start, word.length - end), other = part.slice(start, part.length - end);
  return Math.max(one.length, other.length) <= 1 || (one.length === 2 && one === [...other].reverse().join(""));
}

function openPalette(event, text = "") {
  event?.preventDefault();
  if (!palette) buildPalette();
  if (palette.open) return;
  closeMenus();
  row = currentRow();
  palette.showModal();
  const input = palette.querySelector("input");
  input.value = text;
  input.dispatchEvent(new Event("input"));
}

function buildPalette() {
  const input = make("input", { type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-label": "Search actions, schedules, runs and pages", placeholder: "An action, a schedule, a tag, a run’s number or a page…", autocomplete: "off", spellcheck: "false" });
  const list = make("ul", { id: "palette-list", role: "listbox", "aria-label": "Results" });
  palette = make("dialog", { class: "palette", "aria-label": "Command palette" }, input, list);
  document.body.append(palette);
  let typed = 0;
  input.addEventListener("input", () => {
    clearTimeout(typed);
    chosen = false;
    listOptions();
    asking = input.value.trim() ? new Promise((done) => { typed = setTimeout(() => done(ask(input.value)), 120); }) : null;
  });
  input.addEventListener("keydown", async (event) => {
    const options = [...list.children];
    const at = options.findIndex((each) => each.ariaSelected === "true");
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && options.length) { event.preventDefault(); chosen = true; choose(options[(at + step + options.length) % options.length]); }
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (!chosen && answer.text !== input.value && !options[at]?.matches(".sure")) await asking; // the best may be still to come
    list.querySelector("[aria-selected=true]")?.click();
  });
  palette.addEventListener("click", (event) => { if (event.target === palette) palette.close(); });
}

function choose(option) {
  const list = byId("palette-list");
  for (const each of list.children) each.setAttribute("aria-selected", String(each === option));
  palette.querySelector("input").setAttribute("aria-activedescendant", option?.id ?? "");
  option?.scrollIntoView({ block: "nearest" });
}

function option({ label, keys, go, run, detail, place }, at) {
  const made = make("li", { role: "option", id: `option-${at}`, "aria-selected": "false", class: place < 2 ? "sure" : null }, make("span", {}, label));
  if (detail) made.append(make("span", { class: "faint" }, detail));
  if (keys) made.append(make("span", { class: "keys" }, ...keys.split(" ").map((key) => make("kbd", {}, key))));
  made.addEventListener("click", () => { palette.close(); if (go) location.assign(go); else run(); });
  made.addEventListener("pointermove", () => { if (made.ariaSelected !== "true") choose(made); });
  return made;
}

function placeOf({ label, what, rank }, text) {
  const place = RANKS[rank][FITS.indexOf(fit(label, text))], [verb = "", next] = wordsOf(text);
  const named = !isNear(verb, wordsOf(label)[0]) || (next && fit(what ?? "", text) === "begins");
  return named && rank === "action" && place >= 0 ? 9 : place;
}

function listOptions() {
  const text = palette.querySelector("input").value.trim(), list = byId("palette-list");
  const own = commands().map((each) => ({ ...each, place: placeOf(each, text) })).filter((each) => each.place !== undefined);
  const found = answer.text.trim() === text ? answer.results.map((each) => ({ ...each, go: each.address, place: RANKS[each.rank] })) : [];
  const search = { label: `List schedules with “${text}” in their name`, go: `/schedules?view=all&text=${encodeURIComponent(text)}`, place: 8 };
  const all = [...own, ...found, ...(text ? [search] : [])];
  if (text) all.sort((one, other) => one.place - other.place);
  const before = chosen ? list.querySelector("[aria-selected=true]")?.textContent : null;
  list.replaceChildren(...all.map(option));
  choose([...list.children].find((each) => each.textContent === before) ?? list.firstElementChild);
}

async function ask(text) {
  try {
    const reply = await fetch(`/find?text=${encodeURIComponent(text.trim())}`, { headers: { Accept: "application/json" } });
    if (!reply.ok || palette.querySelector("input").value !== text) return;
    answer = { text, results: (await reply.json()).results };
    listOptions();
  } catch { /* the commands remain */ }
}

// The box in the header is another way to open it.
byId("finder")?.addEventListener("input", (event) => { openPalette(null, event.target.value); event.target.value = ""; });

// -- shortcuts ------------------------------------------------------------------------------------------------------

let keyed = ""; // the first key of two
let keyedAt = 0;

const rows = () => [...document.querySelectorAll("[data-row]")].filter((each) => each.checkVisibility());
const currentRow = () => document.activeElement?.closest?.("[data-row]") ?? document.querySelector(".at-row");
const opener = (row) => row?.querySelector("[data-open]") ?? row?.querySelector("a.name, a.outcome, a");

function moveRow(step) {
  const among = rows();
  const next = among[Math.min(Math.max(among.indexOf(currentRow()) + step, 0), among.length - 1)];
  if (!next) return;
  document.querySelector(".at-row")?.classList.remove("at-row");
  next.classList.add("at-row");
  next.scrollIntoView({ block: "nearest" });
  opener(next)?.focus({ preventScroll: true });
}

const ROW_KEYS = {
  j: () => moveRow(1),
  k: () => moveRow(-1),
  x: () => currentRow()?.querySelector("input[type=checkbox]")?.click(),
  o: () => opener(currentRow())?.click(),
};

async function showKeys() {
  let shown = byId("shortcuts");
  if (!shown) {
    shown = make("dialog", { id: "shortcuts", class: "palette shortcuts", "aria-label": "Keyboard shortcuts" });
    const close = make("button", { type: "button", class: "quiet close", "aria-label": "Close", autofocus: true }, icon("close"));
    close.addEventListener("click", () => shown.close());
    shown.append(make("h2", {}, "Keyboard shortcuts"), close);
    shown.addEventListener("click", (event) => { if (event.target === shown) shown.close(); });
    document.body.append(shown);
    try {
      const keys = (await parse(await fetch("/help", { headers: { Accept: "text/html" } }))).getElementById("keys");
      const select = [...(keys?.querySelectorAll("dt") ?? [])].find((key) => key.textContent === "x");
      if (select && !document.querySelector("[data-row] input[type=checkbox]")) { select.nextElementSibling.remove(); select.remove(); }
      if (keys) shown.append(keys);
    } catch { location.assign("/help"); }
  }
  if (!shown.open) shown.showModal();
}

const OPEN_MENU = "details.menu[open], details.actions-menu[open]";

function press(target) {
  if (target.matches("input, textarea, select")) { target.focus(); target.select?.(); } else target.click();
}

function closeMenus() {
  for (const menu of document.querySelectorAll(OPEN_MENU)) {
    if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
    menu.removeAttribute("open");
  }
}

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" && !event.altKey && !event.shiftKey && byId("pages")) { openPalette(event); return; }
  if (event.key === "Escape") { hideTip(); closeMenus(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, dialog[open]")) return;
  if (!byId("pages")) return;
  if (event.key === "?") { event.preventDefault(); showKeys(); return; }
  if (event.key === "/") {
    const filter = [...document.querySelectorAll("main input[type=search]")].find((each) => each.checkVisibility());
    event.preventDefault();
    if (filter) press(filter); else openPalette();
    return;
  }
  const pair = keyed && Date.now() - keyedAt < 1500 ? `${keyed} ${event.key}` : event.key;
  keyed = "";
  const target = document.querySelector(`[data-key="${CSS.escape(pair)}"]`);
  if (target) { event.preventDefault(); press(target); return; }
  if (event.key === "g") { keyed = "g"; keyedAt = Date.now(); return; }
  ROW_KEYS[event.key]?.();
});
document.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key], menu = event.target.closest(OPEN_MENU);
  if (!step || !menu || event.target.matches("input, select")) return;
  const items = [...menu.querySelectorAll("a, button, input, select")].filter((each) => each.checkVisibility());
  const at = items.indexOf(event.target);
  event.preventDefault();
  items.at(at < 0 ? Math.min(0, step) : (at + step) % items.length)?.focus();
});
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-palette]")) openPalette(event);
  for (const open of document.querySelectorAll(OPEN_MENU)) {
    if (!open.contains(event.target)) open.removeAttribute("open");
  }
});

// -- what a trigger means, while it is typed ----------------------------------------------------------------------

// Returns a part of the form as the server renders it for what has been typed.
async function rendered(intent, id) {
  const body = new URLSearchParams(new FormData(form));
  body.set("intent", intent);
  return (await parse(await fetch(form.action, { method: "POST", body }))).getElementById(id);
}

const preview = byId("preview");
let waiting = 0;
let asked = 0;

async function look() {
  const turn = ++asked;
  try {
    const fresh = await rendered("look", "preview");
    if (turn === asked && fresh) preview.replaceChildren(...fresh.childNodes);
  } catch { return; } finally { if (turn === asked) preview.classList.remove("stale"); }
}

if (form && preview) {
  byId("preview-button").hidden = true;
  byId("trigger").addEventListener("input", () => {
    preview.classList.add("stale");
    clearTimeout(waiting);
    waiting = setTimeout(look, 250);
  });
}

// -- new and edit: presets, a date picker, and the arguments of the chosen task ----------------------------------------

const when = byId("trigger");
for (const chip of document.querySelectorAll("[data-phrase]")) {
  chip.addEventListener("click", (event) => {
    event.preventDefault();
    const phrase = byId("phrase");
    byId("when-phrase").checked = true;
    phrase.value = chip.dataset.phrase;
    phrase.focus();
    when.dispatchEvent(new Event("input"));
  });
}
for (const picker of document.querySelectorAll("[data-fills]")) {
  picker.parentElement.hidden = false;
  picker.addEventListener("input", () => {
    if (!picker.value) return;
    byId(picker.dataset.fills).value = picker.value.replace("T", " ");
    when.dispatchEvent(new Event("input"));
  });
}

const task = byId("task");
if (form && task) {
  byId("task-button").hidden = true;
  let shown = task.value;
  task.addEventListener("change", async () => {
    if (task.value === shown) return;
    shown = task.value;
    try {
      const fresh = await rendered("preview", "task-arguments");
      if (fresh && shown === task.value) byId("task-arguments").replaceChildren(...fresh.childNodes);
    } catch { /* without them, JSON can still be typed */ }
  });
}
