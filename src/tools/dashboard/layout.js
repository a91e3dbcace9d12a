// SPDX-License-Identifier: Apache-2.0
// Where a file lies: a row for each slot, a box for each strip; or the entries of a directory.
import {element, size} from "/charts.js";

const join = (folder, name) => (folder.endsWith("/") ? folder : folder + "/") + name;

// `place`: the element to fill. `ask(path, from)`: the server's answer. `go(path)`: shows another path.
export class Layout {
  constructor(place, ask, go) {
    this.place = place;
    this.ask = ask;
    this.go = go;
  }

  async show(path, from = "0") {
    this.place.setAttribute("aria-busy", "true");
    try {
      const told = await this.ask(path, from);
      this.place.replaceChildren(...(told.layout ? this.file(told, path) : told.entries ? this.directory(told, path) : this.other(told)));
    } catch (error) {
      this.place.replaceChildren(element("p", {class: "trouble", role: "alert", text: `${path}: ${error.message}`}));
    }
    this.place.removeAttribute("aria-busy");
  }

  other(told) { return [element("p", {class: "facts", text: `${told.path}: ${told.type}, which has no data of its own`})]; }

  more(told, path, label) {
    if (told.next === null) return [];
    return [element("button", {type: "button", class: "more", text: label, onclick: () => this.show(path, told.next)})];
  }

  file(told, path) {
    const layout = told.layout;
    const facts = `${size(told.size)} in strips of ${size(layout.strip_bytes)} (${layout.distribution}), ` +
      `${layout.slots.length} ${layout.slots.length === 1 ? "target" : "targets"}, mode ${told.mode}, user ${told.uid}`;
    const detail = element("p", {class: "detail", role: "status", text: told.strips.length ? "Choose a strip: a click, or Tab and the arrow keys." : "The file is empty: it has no strip yet."});
    const rows = layout.slots.map((slot, index) => this.slot(slot, index, told.strips, detail));
    return [element("p", {class: "facts", text: facts}), element("div", {class: "slots"}, ...rows), detail, ...this.more(told, path, "Next strips")];
  }

  slot(slot, index, strips, detail) {
    const where = slot.targets.map((target) => `server ${target.server}, target ${target.target}`).join("; ");
    const boxes = strips.map((strip, number) => ({strip, number})).filter(({strip}) => strip[2] === index);
    const row = element("div", {class: "strips", role: "group", "aria-label": `Slot ${index}: ${where}`});
    for (const [place, {strip}] of boxes.entries()) row.append(this.strip(strip, index, where, place === 0, detail));
    row.addEventListener("keydown", (event) => step(event, row));
    return element("div", {class: "slot"}, element("div", {}, `Slot ${index}`, element("span", {class: "sub", text: `${where}, ${size(slot.bytes)}`})), row);
  }

  strip([offset, bytes, slot, physical], index, where, first, detail) {
    const text = `Bytes ${offset.toLocaleString("en")} to ${(offset + bytes - 1).toLocaleString("en")} (${size(bytes)}) are on ${where}, from byte ${physical.toLocaleString("en")} of its datafile on.`;
    const box = element("button", {type: "button", class: `strip c${index % 8}`, "aria-pressed": "false", "aria-label": text, title: text, tabindex: first ? "0" : "-1", "data-offset": offset, text: short(offset)});
    const choose = () => {
      for (const other of this.place.querySelectorAll(".strip")) other.setAttribute("aria-pressed", String(other === box));
      detail.textContent = text;
    };
    box.addEventListener("click", choose);
    box.addEventListener("focus", choose);
    return box;
  }

  directory(told, path) {
    const up = path === "/" ? [] : [element("li", {}, element("button", {type: "button", text: "..", onclick: () => this.go(path.replace(/\/+[^/]*\/*$/, "") || "/")}))];
    const rows = told.entries.map((entry) => element("li", {}, element("button", {type: "button", onclick: () => this.go(join(path, entry.name))},
      entry.name + (entry.type === "directory" ? "/" : ""), element("span", {class: "sub", text: entry.type === "file" ? size(entry.size) : entry.type}))));
    const none = rows.length ? [] : [element("p", {class: "empty", text: "No entries."})];
    return [element("ul", {class: "entries"}, ...up, ...rows), ...none, ...this.more(told, path, "More entries")];
  }
}

// The first byte of a strip, short enough for its box.
function short(offset) {
  const units = ["", "K", "M", "G", "T", "P"];
  let at = 0;
  while (offset >= 1024 && at < units.length - 1) { offset /= 1024; ++at; }
  return `${offset >= 10 || Number.isInteger(offset) ? Math.round(offset) : offset.toFixed(1)}${units[at]}`;
}

// The arrow keys move between the strips of a slot, and to the slots above and below.
function step(event, row) {
  const boxes = [...row.children];
  const at = boxes.indexOf(document.activeElement);
  const rows = [...row.closest(".slots").querySelectorAll(".strips")];
  const beside = rows[rows.indexOf(row) + {ArrowUp: -1, ArrowDown: 1}[event.key]];
  const next = {ArrowLeft: boxes[at - 1], ArrowRight: boxes[at + 1], Home: boxes[0], End: boxes.at(-1)}[event.key] ?? beside?.children[Math.min(at, beside.children.length - 1)];
  if (!next) return;
  event.preventDefault();
  for (const box of next.parentElement.children) box.tabIndex = box === next ? 0 : -1;
  next.focus();
}
