// Everything works without this file. With it, times tick, pages follow what happens, and a trigger is explained while
// it is typed. It only ever puts in place what the server has rendered, or text.

const page = document.documentElement;
const proof = document.querySelector("meta[name=csrf]")?.content ?? "";
const form = document.getElementById("schedule-form");

// -- the viewer's zone --------------------------------------------------------------------------------------------

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const told = new RegExp("(?:^|; )duetime_zone=([^;]*)").exec(document.cookie)?.[1];
if (zone && told !== zone) {
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
    const words = away(Date.parse(time.dateTime), time.classList.contains("countdown"));
    if (time.textContent !== words) time.textContent = words;
  }
}
setInterval(tick, 1000);

// -- pages that follow what happens -------------------------------------------------------------------------------

const EVENTS = ["schedule.created", "schedule.changed", "schedule.deleted", "run.fired", "run.ended", "gap"];
const PAUSE = 700; // milliseconds between two refreshes, however much happens
const POLL = 5000;
const BEAT = 15000; // without any event: workers beat, and the present moves on
const live = document.querySelector("[data-live]") !== null;
const pulse = document.getElementById("pulse");
const seen = new Map(); // what was put in place last, by id
let source = null;
let polling = 0;
let due = 0;
let busy = false;
let again = false;

function busyHere() {
  return document.querySelector("#chosen input:checked") !== null || document.querySelector("#rows :focus") !== null;
}

async function refresh() {
  if (busy) { again = true; return; }
  if (document.hidden || busyHere()) return;
  busy = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, credentials: "same-origin", cache: "no-store" });
    if (answer.status === 401) { rest(); if (!form) location.reload(); return; } // what is typed is not thrown away
    if (answer.ok) place(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch { /* away for the moment: the next event or poll tries again */ }
  busy = false;
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
  if (!due) due = setTimeout(() => { due = 0; refresh(); }, PAUSE);
}

function say(words, still) {
  if (!pulse) return;
  pulse.hidden = false;
  pulse.textContent = words;
  pulse.classList.toggle("still", still);
}

function follow() {
  if (!live || source || document.hidden) return;
  source = new EventSource("/api/v1/events");
  for (const name of EVENTS) source.addEventListener(name, soon);
  source.onopen = () => {
    clearInterval(polling);
    polling = setInterval(refresh, BEAT);
    say("Live", false);
    soon(); // what happened since the page was made, and before anybody listened
  };
  source.onerror = () => {
    clearInterval(polling);
    polling = setInterval(refresh, POLL);
    say("Looking every few seconds", true);
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

function triggerOf(fields) {
  const given = (name) => fields.get(name)?.trim() ?? "";
  const number = (name) => (given(name) === "" || Number.isNaN(Number(given(name))) ? given(name) : Number(given(name)));
  const trigger = { type: given("when") };
  const take = (...names) => { for (const name of names) if (given(name)) trigger[name] = given(name); };
  if (trigger.type === "once") trigger.run_at = given("run_at");
  if (trigger.type === "interval") { trigger[given("unit")] = number("every"); take("anchor"); }
  if (trigger.type === "cron") { trigger.expression = given("expression"); take("dst"); }
  if (trigger.type === "rrule") { trigger.rrule = given("rrule"); take("dtstart"); }
  take("start", "end");
  if (given("jitter")) trigger.jitter = number("jitter");
  return trigger;
}

function element(name, classes, words) {
  const made = document.createElement(name);
  made.className = classes;
  made.textContent = words;
  return made;
}

// Letters that hide or turn others around are shown by their number, as the server does.
const UNSAFE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
const numbered = (letter) => `⟨U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
const visible = (text) => String(text).replace(UNSAFE, numbered);

const there = (moment, where) =>
  new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", timeZone: where }).format(moment);

function row(each, where) {
  const moment = new Date(each.utc);
  const line = document.createElement("li");
  const time = element("time", "", there(moment, page.dataset.zone));
  time.dateTime = each.local;
  line.append(time);
  const other = there(moment, where);
  if (other !== time.textContent) line.append(element("span", "there", `${other} ${where}`));
  const left = element("time", "ticks countdown", away(moment.getTime(), true));
  left.dateTime = each.local;
  const more = element("span", "more", "");
  more.append(left);
  line.append(more);
  return line;
}

function explain(view) {
  const list = document.createElement("ol");
  list.className = "instants";
  list.append(...view.next.map((each) => row(each, view.timezone)));
  preview.replaceChildren(
    element("p", "reads", visible(view.reads_as)), list, ...view.warnings.map((words) => element("p", "notice partly", visible(words))),
  );
}

async function look() {
  const turn = ++asked;
  const fields = new FormData(form);
  const zoneGiven = fields.get("timezone")?.trim();
  const body = { trigger: triggerOf(fields), count: 5, ...(zoneGiven ? { timezone: zoneGiven } : {}) };
  try {
    const answer = await fetch("/api/v1/preview", {
      method: "POST", credentials: "same-origin", body: JSON.stringify(body),
      headers: { "Content-Type": "application/json", "X-CSRF-Token": proof },
    });
    const view = await answer.json();
    if (turn !== asked) return;
    if (answer.ok) explain(view);
    else preview.replaceChildren(element("p", "said error", visible(view.detail ?? "It cannot be explained just now.")));
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
