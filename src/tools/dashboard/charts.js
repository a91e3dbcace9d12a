// SPDX-License-Identifier: Apache-2.0
// A chart of lines over time, as SVG. The pointer or the arrow keys choose a point; the legend tells its values.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") made.textContent = value;
    else if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const svg = (name, attributes) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) { bytes /= 1024; ++at; }
  return `${at === 0 || bytes >= 100 ? Math.round(bytes) : bytes.toFixed(1)} ${units[at]}`;
}

export function span(ns) {
  if (ns >= 1e9) return `${(ns / 1e9).toFixed(2)} s`;
  if (ns >= 1e6) return `${(ns / 1e6).toFixed(1)} ms`;
  return `${Math.round(ns / 1e3)} µs`;
}

export const rate = (number) => (number > 0 && number < 9.95 ? number.toFixed(1) : Math.round(number).toLocaleString("en"));

const LEAST_WIDTH = 160, HEIGHT = 190, LEFT = 64, BOTTOM = 22, TOP = 8;

// `lines`: each {label, value(point)}. `tell`: a value as text.
export class Chart {
  constructor(place, lines, tell) {
    this.lines = lines;
    this.tell = tell;
    this.points = [];
    this.chosen = null;
    this.width = LEAST_WIDTH;
    this.svg = svg("svg", {role: "img", tabindex: "0"});
    this.legend = element("p", {class: "legend"});
    place.append(this.svg, this.legend);
    this.svg.addEventListener("pointermove", (event) => this.choose_at(event));
    this.svg.addEventListener("pointerleave", () => this.choose(null));
    this.svg.addEventListener("blur", () => this.choose(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(place);
  }

  key(event) {
    const last = this.points.length - 1;
    const at = this.chosen ?? last + 1;
    const next = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last}[event.key];
    if (next === undefined || last < 0) return;
    event.preventDefault();
    this.choose(Math.max(0, Math.min(last, next)));
  }

  choose_at(event) {
    const box = this.svg.getBoundingClientRect();
    const share = ((event.clientX - box.left) / box.width * this.width - LEFT) / (this.width - LEFT);
    this.choose(Math.max(0, Math.min(this.points.length - 1, Math.round(share * (this.points.length - 1)))));
  }

  choose(index) {
    this.chosen = index;
    this.draw();
  }

  show(points) {
    this.points = points;
    if (this.chosen !== null) this.chosen = Math.min(this.chosen, points.length - 1);
    this.draw();
  }

  x(index) { return this.points.length < 2 ? this.width : LEFT + (this.width - LEFT) * index / (this.points.length - 1); }

  // One unit is one pixel, or else the letters would be squeezed in a narrow window.
  draw() {
    this.width = Math.max(LEAST_WIDTH, Math.round(this.svg.getBoundingClientRect().width));
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    const most = Math.max(1, ...this.points.flatMap((point) => this.lines.map((line) => line.value(point)))) * 1.1;
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      const at = y(most / 1.1 * share);
      parts.push(svg("line", {class: "grid", x1: LEFT, x2: this.width, y1: at, y2: at}));
      const text = svg("text", {x: LEFT - 8, y: at + 4, "text-anchor": "end"});
      text.textContent = this.tell(most / 1.1 * share);
      parts.push(text);
    }
    parts.push(...this.times());
    this.lines.forEach((line, index) => {
      const d = this.points.map((point, i) => `${i === 0 ? "M" : "L"}${this.x(i).toFixed(1)} ${y(line.value(point)).toFixed(1)}`).join("");
      parts.push(svg("path", {class: `c${index}`, d: d || "M0 0"}));
    });
    if (this.chosen !== null) parts.push(svg("line", {class: "cursor", x1: this.x(this.chosen), x2: this.x(this.chosen), y1: TOP, y2: HEIGHT - BOTTOM}));
    this.svg.replaceChildren(...parts);
    this.tell_values();
  }

  times() {
    if (this.points.length < 2) return [];
    const clock = (point) => new Date(point.t).toLocaleTimeString([], {hour: "2-digit", minute: "2-digit", second: "2-digit"});
    return [[0, "start"], [this.points.length - 1, "end"]].map(([index, anchor]) => {
      const text = svg("text", {x: this.x(index), y: HEIGHT - 6, "text-anchor": anchor});
      text.textContent = clock(this.points[index]);
      return text;
    });
  }

  tell_values() {
    const point = this.points[this.chosen ?? this.points.length - 1];
    const values = this.lines.map((line) => `${line.label} ${point ? this.tell(line.value(point)) : "-"}`);
    const when = this.chosen === null || !point ? "now" : new Date(point.t).toLocaleTimeString();
    this.svg.setAttribute("aria-label", `${when}: ${values.join(", ")}. The arrow keys choose a time.`);
    this.legend.replaceChildren(element("span", {text: when}), ...this.lines.map((line, index) =>
      element("span", {}, element("i", {class: `c${index}`}), line.label + " ", element("b", {text: point ? this.tell(line.value(point)) : "-"}))));
  }
}
