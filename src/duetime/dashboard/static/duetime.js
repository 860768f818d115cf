// Everything works without this file. With it, times tick, pages follow what happens, and a trigger is explained while
// it is typed. It only ever puts in place what the server has rendered, or text.

const page = document.documentElement;
const form = document.getElementById("schedule-form");

// -- the viewer's zone --------------------------------------------------------------------------------------------

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const stored = new RegExp("(?:^|; )duetime_zone=([^;]*)").exec(document.cookie)?.[1];
if (zone && stored !== zone) {
  document.cookie = `duetime_zone=${zone}; path=/; max-age=31536000; samesite=strict`;
  const kept = document.cookie.includes("duetime_zone=");
  if (kept && "reloads" in page.dataset && page.dataset.zone !== zone) location.reload();
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
}
setInterval(tick, 1000);

// -- pages that follow what happens -------------------------------------------------------------------------------

const EVENTS = ["schedule.created", "schedule.changed", "schedule.deleted", "run.fired", "run.ended", "gap"];
const PAUSE = Number(page.dataset.pause ?? 700); // milliseconds between two refreshes, however much happens
const SHARE = 5; // and so many times as long as the last one took: who asks much of the server, asks seldom
const POLL = Math.max(PAUSE, 5000);
const BEAT = Math.max(PAUSE, 15000); // without any event: workers beat, and the present moves on
const live = document.querySelector("[data-live]:not(#alarms)") !== null;
const pulse = document.getElementById("pulse");
const seen = new Map(); // what was put in place last, by id
let source = null;
let polling = 0;
let due = 0;
let busy = false;
let again = false;
let took = 0;

function busyHere() {
  return document.querySelector("#chosen input:checked") !== null || document.querySelector("#rows :focus") !== null;
}

async function refresh() {
  if (busy) { again = true; return; }
  if (!live || document.hidden || busyHere()) return;
  busy = true;
  const began = performance.now();
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, credentials: "same-origin", cache: "no-store" });
    if (answer.status === 401) { rest(); location.reload(); return; }
    if (answer.ok) place(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch { /* away for the moment: the next event or poll tries again */ }
  busy = false;
  took = performance.now() - began;
  if (again) { again = false; soon(); }
}

function place(fresh) {
  if (busyHere()) return;
  for (const old of document.querySelectorAll("[data-live][id]")) {
    const next = fresh.getElementById(old.id);
    if (!next || next.innerHTML === seen.get(old.id)) continue;
    const open = [...old.querySelectorAll("details[open][id]")].map((each) => each.id);
    const focus = old.contains(document.activeElement) ? [...old.querySelectorAll("a, button")].indexOf(document.activeElement) : -1;
    seen.set(old.id, next.innerHTML);
    old.replaceChildren(...next.childNodes);
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    if (focus >= 0) old.querySelectorAll("a, button")[focus]?.focus();
  }
  tick();
}

function soon() {
  if (!due) due = setTimeout(() => { due = 0; refresh(); }, Math.max(PAUSE, SHARE * took));
}

function showState(text, still) {
  if (!pulse) return;
  pulse.hidden = false;
  pulse.textContent = text;
  pulse.classList.toggle("still", still);
}

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
    showState("Looking every few seconds", true);
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
addEventListener("pagehide", rest);
addEventListener("pageshow", (event) => { if (event.persisted) { refresh(); follow(); } });
follow();

// -- choosing all on a page ---------------------------------------------------------------------------------------

const all = document.getElementById("choose-all");
if (all) {
  all.parentElement.hidden = false;
  all.addEventListener("change", () => {
    for (const box of document.querySelectorAll("#rows input[type=checkbox]")) box.checked = all.checked;
  });
}
for (const select of document.querySelectorAll(".filter select")) select.addEventListener("change", () => select.form.requestSubmit());

// -- what a trigger means, while it is typed ----------------------------------------------------------------------

const preview = document.getElementById("preview");
let waiting = 0;
let asked = 0;

async function look() {
  const turn = ++asked;
  const fields = new URLSearchParams(new FormData(form));
  fields.set("intent", "look");
  try {
    const answer = await fetch(form.action, { method: "POST", credentials: "same-origin", body: fields });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("preview");
    if (turn === asked && fresh) preview.replaceChildren(...fresh.childNodes);
  } catch { return; } finally { if (turn === asked) preview.classList.remove("stale"); }
}

if (form && preview) {
  document.getElementById("preview-button").hidden = true;
  document.getElementById("trigger").addEventListener("input", () => {
    preview.classList.add("stale");
    clearTimeout(waiting);
    waiting = setTimeout(look, 250);
  });
}
