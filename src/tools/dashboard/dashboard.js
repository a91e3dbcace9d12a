// SPDX-License-Identifier: Apache-2.0
// The page of `spate dashboard`: asks /api/state again and again and shows it.
import {Chart, element, rate, size, span} from "/charts.js";
import {Layout} from "/layout.js";

const at = (id) => document.getElementById(id);
const INTERVAL_MS = 2000;
// Names of work that is left, as people say it; others are shown as they are.
const WORK = {spate_server_meta_removals_pending: "Removed files whose data is still to be deleted"};

let token = "";
let timer = 0;
let paused = false;
let group = "job";
let state = null;

// The token comes behind the #, which no browser sends, and leaves the address at once.
function take_token() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  }
  token = sessionStorage.getItem("token") ?? "";
}

async function ask(what) {
  const answer = await fetch(what, {headers: {Authorization: `Bearer ${token}`}, cache: "no-store"});
  const told = await answer.json().catch(() => ({error: `the dashboard answered ${answer.status}`}));
  if (answer.ok) return told;
  throw Object.assign(new Error(told.error), {status: answer.status});
}

function trouble(text) {
  at("trouble").hidden = !text;
  if (at("trouble").textContent !== text) at("trouble").textContent = text;
}

function health(kind, text) {
  at("health").className = `health ${kind}`;
  if (at("health").textContent !== text) at("health").textContent = text;
}

async function look() {
  clearTimeout(timer);
  try {
    state = await ask("/api/state");
    at("token-form").hidden = true;
    at("main").hidden = false;
    trouble(state.troubles.join(". "));
    show();
  } catch (error) {
    refused(error);
    if (error.status === 401) return;
  }
  if (!paused) timer = setTimeout(look, INTERVAL_MS);
}

function refused(error) {
  const unknown = error.status === 401;
  at("token-form").hidden = !unknown;
  at("main").hidden = unknown;
  health("bad", unknown ? "Token wanted" : "No answer");
  if (unknown) trouble(token ? error.message : "");
  else trouble(error.status ? error.message : "The dashboard does not answer. Has `spate dashboard` ended?");
  if (unknown) at("token").focus();
}

// While a button of the mouse is down nothing is drawn anew: what a click began on must still be there when it ends.
let pressed = false;
document.addEventListener("pointerdown", () => { pressed = true; });
for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => { pressed = false; });

function show() {
  if (pressed) return;
  document.title = `${state.name} - Spate`;
  at("name").textContent = state.name;
  const down = state.servers.filter((server) => !server.up).length;
  const full = state.servers.flatMap((server) => server.targets ?? []).filter((target) => target.state === "full").length;
  const count = state.servers.length;
  if (down) health("bad", `${down} of ${count} servers down`);
  else if (full) health("warn", `${full} ${full === 1 ? "target" : "targets"} full`);
  else health("good", count === 1 ? "The server is up" : `All ${count} servers up`);
  show_now();
  chart_bytes.show(state.points);
  chart_latency.show(state.points);
  at("servers").replaceChildren(...state.servers.map(server_card));
  show_busiest();
  show_work();
}

function fill_bar(bar, total, free) {
  const used = total ? 1 - free / total : 0;
  bar.className = `bar ${used > 0.98 ? "full" : used > 0.85 ? "warn" : ""}`;
  bar.firstElementChild.style.width = `${(used * 100).toFixed(1)}%`;
  return used;
}

function show_now() {
  const space = state.space;
  at("space-free").textContent = space ? `${size(space.free)} free` : "?";
  at("space-of").textContent = space ? `of ${size(space.total)}, ${space.objects.toLocaleString("en")} objects` : "";
  if (space) at("space-bar").setAttribute("aria-label", `${Math.round(fill_bar(at("space-bar"), space.total, space.free) * 100)} % used`);
  const now = state.points.at(-1);
  if (!now) return;
  at("now-read").textContent = `${size(now.read_bytes)}/s`;
  at("now-reads").textContent = `${rate(now.read.requests)} requests/s`;
  at("now-written").textContent = `${size(now.written_bytes)}/s`;
  at("now-writes").textContent = `${rate(now.write.requests)} requests/s`;
  at("now-names").textContent = `${rate(now.look.requests + now.change.requests)}/s`;
  at("now-failed").textContent = `${rate(now.change.requests)} changes/s, ${rate(now.failed)} failed/s`;
}

function age(ms) {
  const minutes = Math.floor(ms / 60000);
  if (minutes < 60) return `${minutes} min`;
  return minutes < 48 * 60 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 1440)} days`;
}

function server_card(server) {
  const card = element("li", {class: server.up ? "up" : "down"},
    element("div", {class: "server-head"}, element("span", {text: `Server ${server.server}`}), element("span", {class: "state", text: server.up ? "up" : "DOWN"})));
  if (!server.up) {
    card.append(element("span", {class: "sub", text: server.url}), element("span", {class: "sub", text: server.error}));
    return card;
  }
  card.append(element("span", {class: "sub", text: `${server.roles.join(", ")}, up for ${age(server.uptime_ms)}`}), element("span", {class: "sub", text: server.url}));
  const now = server.now;
  if (now) card.append(element("span", {class: "sub", text: server.targets.length ? `read ${size(now.read_bytes)}/s, written ${size(now.written_bytes)}/s` : `${rate(now.look.requests)} looks/s, ${rate(now.change.requests)} changes/s`}));
  for (const target of server.targets) {
    const bar = element("div", {class: "bar", role: "img"}, element("span"));
    const used = fill_bar(bar, target.total, target.free);
    bar.setAttribute("aria-label", `${Math.round(used * 100)} % used`);
    card.append(element("div", {class: "target", title: target.store}, element("div", {}, element("span", {text: `Target ${target.target}${target.state === "full" ? ", FULL" : ""}`}), element("span", {text: `${size(target.free)} free`})), bar));
  }
  return card;
}

function name_of(row) {
  if (group === "file") return row.path || `(file ${row.handle.toString(16)})`;
  if (group === "job") return row.job || "(no job)";
  if (group === "user") return row.user || "(servers)";
  return `${row.program}${row.host ? ` on ${row.host}` : ""}${row.user ? `, ${row.user}` : ""}`;
}

function show_busiest() {
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const chosen = tab.id === `tab-${group}`;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
  }
  at("busiest").setAttribute("aria-labelledby", `tab-${group}`);
  const rows = state?.busiest[group] ?? [];
  if (!rows.length) return at("busiest").replaceChildren(element("p", {class: "empty", text: "Nobody has asked for anything."}));
  const columns = ["", "Read/s", "Written/s", "Requests/s", "Mean"];
  const kinds = ["read", "write", "look", "change"];
  const body = rows.map((row) => {
    const requests = kinds.reduce((sum, kind) => sum + row[kind].requests_per_second, 0);
    const time = kinds.reduce((sum, kind) => sum + row[kind].requests_per_second * row[kind].mean_ns, 0);
    const cells = [name_of(row), size(row.read.bytes_per_second), size(row.write.bytes_per_second), rate(requests), requests ? span(time / requests) : "-"];
    const line = element("tr", {}, ...cells.map((text) => element("td", {text})));
    if (group === "file" && row.path) line.firstElementChild.replaceChildren(element("button", {type: "button", class: "link", text: row.path, title: "Show where it lies", onclick: () => go(row.path)}));
    return line;
  });
  at("busiest").replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...columns.map((text) => element("th", {scope: "col", text: text || "Who"})))), element("tbody", {}, ...body)));
}

function show_work() {
  const rows = state.work.pending.map((one) => [`${WORK[one.name] ?? one.name} (server ${one.server})`, one.left.toLocaleString("en")]);
  const {checks, repairs} = state.work.fsck;
  if (repairs) rows.unshift(["spate fsck repairs", `${repairs} requests`]);
  else if (checks) rows.unshift(["spate fsck looks for damage", `${checks} requests`]);
  at("work").replaceChildren(...(rows.length ? rows : [["Nothing is being repaired, and nothing is left to do.", ""]]).map(([what, count]) => element("li", {}, element("span", {text: what}), element("b", {text: count}))));
}

function go(path) {
  at("path").value = path;
  layout.show(path);
  at("path-form").scrollIntoView({block: "nearest"});
}

function choose_tab(tab) {
  group = tab.id.slice("tab-".length);
  show_busiest();
  tab.focus();
}

const chart_bytes = new Chart(at("chart-bytes"), [{label: "read", value: (p) => p.read_bytes}, {label: "written", value: (p) => p.written_bytes}], (v) => `${size(v)}/s`);
const chart_latency = new Chart(at("chart-latency"), [{label: "read", value: (p) => p.read.p99_ns}, {label: "write", value: (p) => p.write.p99_ns}, {label: "names", value: (p) => Math.max(p.look.p99_ns, p.change.p99_ns)}], span);
const layout = new Layout(at("layout"), (path, from) => ask(`/api/path?${new URLSearchParams({path, from})}`), go);

at("pause").addEventListener("click", () => {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  at("pause").textContent = paused ? "Go on" : "Pause";
  if (!paused) look();
  else clearTimeout(timer);
});
at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  sessionStorage.setItem("token", token);
  look();
});
at("path-form").addEventListener("submit", (event) => {
  event.preventDefault();
  layout.show(at("path").value || "/");
});
for (const tab of document.querySelectorAll("[role=tab]")) {
  tab.addEventListener("click", () => choose_tab(tab));
  tab.addEventListener("keydown", (event) => {
    const tabs = [...document.querySelectorAll("[role=tab]")];
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (step) choose_tab(tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length]);
  });
}
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "p") at("pause").click();
  if (event.key === "/") {
    event.preventDefault();
    at("path").focus();
    at("path").select();
  }
});

take_token();
look();
