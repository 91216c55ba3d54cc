// A chart: lines of pixel columns, compressed with M4 by the server, as SVG.

import { Clock, numberTicks, readable, valueAxis } from "./axes.js";

const SVG = "http://www.w3.org/2000/svg";
const TOP = 10;
const BOTTOM = 44;
const RIGHT = 14;
const CHARACTER = 7.2; // pixels, about, of a label's character
const DOTS = 16; // pixels, on average, between points that are drawn as dots too
export const MARGINS = 70; // pixels, about, beside a chart's columns

/** Return an SVG element with attributes and, if given, text. */
export function svg(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.textContent = text;
  return made;
}

/** Return an element with a class and, if given, text. */
export function element(name, className = "", text = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

/** Return the path of a line. Each column has first, smallest, largest and last value. */
export function path(line, steps, x, y) {
  const breaks = new Set([0, ...line.breaks]);
  const parts = [];
  line.columns.forEach((column, i) => {
    const at = x(column).toFixed(1);
    const [first, min, max, last] = line.values.slice(4 * i, 4 * i + 4).map((v) => y(v).toFixed(1));
    if (breaks.has(i)) parts.push(`M${at},${first}`);
    else parts.push(steps ? `H${at}V${first}` : `L${at},${first}`);
    if (min !== max) parts.push(`V${min}V${max}V${last}`);
  });
  return parts.join("");
}

/** Return the path of dots: of all points where they are few, else of those that no line reaches. */
export function dots(line, few, x, y) {
  const breaks = new Set([0, ...line.breaks, line.columns.length]);
  const alone = (i) => breaks.has(i) && breaks.has(i + 1);
  return line.columns
    .map((column, i) => [column, line.values[4 * i + 3], few || alone(i)])
    .map(([column, last, is]) => (is ? `M${x(column).toFixed(1)},${y(last).toFixed(1)}h0` : ""))
    .join("");
}

/** The chart of one window name. */
export class Chart {
  constructor(choose) {
    this.root = element("article", "card chart");
    this.name = element("h2");
    this.description = element("p", "note");
    this.select = element("select");
    this.select.setAttribute("aria-label", "aggregate");
    this.select.addEventListener("change", () => choose(this.data.window, this.select.value));
    this.svg = svg("svg", { role: "img" });
    this.legend = element("ul");
    const head = element("header");
    head.append(this.name, this.description, this.select);
    this.root.append(head, this.svg, this.legend);
    this.svg.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    this.pointer = null;
  }

  /** Draw what the board said; slots are colours by key, names the keys' names. */
  draw(data, slots, names) {
    Object.assign(this, { data, slots, names });
    this.name.textContent = data.window;
    const undrawn = data.undrawn.length ? `; not drawn: ${data.undrawn.join(", ")}` : "";
    this.description.textContent = data.description + undrawn;
    this.choices(data);
    this.svg.replaceChildren();
    this.svg.setAttribute("aria-label", `${data.aggregate} of ${data.window}`);
    if (data.lines.some((line) => line.columns.length)) this.plot();
    else this.say(this.why(data));
    this.read();
  }

  /** Say why there is no line. */
  why({ aggregate, undrawn }) {
    if (aggregate) return "these keys have no windows here";
    return undrawn.length ? "none of the aggregates is a number" : "no window is complete yet";
  }

  choices({ choices, aggregate }) {
    const there = [...this.select.options].map((option) => option.value);
    if (there.join() !== choices.join()) {
      this.select.replaceChildren(...choices.map((name) => new Option(name, name)));
    }
    this.select.hidden = !choices.length;
    if (document.activeElement !== this.select) this.select.value = aggregate ?? "";
  }

  say(text) {
    const { width, height } = this.svg.getBoundingClientRect();
    this.svg.append(svg("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, text));
    this.x = null;
  }

  plot() {
    const { lines, x: axis, label, steps } = this.data;
    const { width, height } = this.svg.getBoundingClientRect();
    const seen = lines.flatMap((line) => line.values);
    const bounds = seen.reduce(([lo, hi], v) => [Math.min(lo, v), Math.max(hi, v)], [Infinity, -Infinity]);
    const values = valueAxis(...bounds, 6);
    const widest = Math.max(...values.ticks.map(([, text]) => text.length));
    const left = Math.ceil(widest * CHARACTER) + 12;
    const floor = height - BOTTOM;
    const y = (v) => floor - ((v - values.lo) / (values.hi - values.lo)) * (floor - TOP - 16);
    this.left = left;
    this.plotWidth = Math.max(1, width - left - RIGHT);
    this.x = (column) => left + (column / (axis.columns - 1)) * this.plotWidth;
    for (const [value, text] of values.ticks) {
      const at = { x1: left, x2: width - RIGHT, y1: y(value), y2: y(value) };
      this.svg.append(svg("line", { class: "grid", ...at }));
      this.svg.append(svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, text));
    }
    this.svg.append(svg("text", { x: left, y: TOP }, label));
    this.bottom(axis, floor, width);
    for (const line of lines) {
      const slot = { "data-slot": this.slots.get(line.key) };
      this.svg.append(svg("path", { ...slot, class: "line", d: path(line, steps, this.x, y) }));
      const few = !steps && line.columns.length < this.plotWidth / DOTS;
      this.svg.append(svg("path", { ...slot, class: "dots", d: dots(line, few, this.x, y) }));
    }
    this.guide = svg("g", { visibility: "hidden" });
    this.guide.append(svg("line", { class: "guide", y1: TOP + 8, y2: floor }));
    this.guide.append(svg("text", { x: width - RIGHT, y: TOP, "text-anchor": "end" }));
    this.svg.append(this.guide);
  }

  /** Draw the axis below. */
  bottom(axis, floor, width) {
    const isTime = axis.kind === "time";
    this.clock = isTime ? new Clock(axis.zone) : null;
    const scale = isTime ? 1000 : 1; // bounds are microseconds, clocks take milliseconds
    const [lo, hi] = [axis.lo / scale, axis.hi / scale];
    const ticks = isTime
      ? this.clock.ticks(lo, hi, Math.max(2, this.plotWidth / 90))
      : numberTicks(lo, hi, this.plotWidth / (CHARACTER * (readable(hi).length + 4)));
    this.svg.append(svg("line", { class: "axis", x1: this.left, x2: width - RIGHT, y1: floor, y2: floor }));
    for (const [at, text] of ticks) {
      const x = this.left + (hi > lo ? (at - lo) / (hi - lo) : 0) * this.plotWidth;
      this.svg.append(svg("line", { class: "axis", x1: x, x2: x, y1: floor, y2: floor + 4 }));
      const half = (text.length * CHARACTER) / 2;
      const inside = Math.min(Math.max(x, half), width - half);
      this.svg.append(svg("text", { x: inside, y: floor + 18, "text-anchor": "middle" }, text));
    }
    const caption = isTime ? `${axis.label}, ${this.clock.days(lo, hi)}` : axis.label;
    const place = { x: width - RIGHT, y: floor + 37, "text-anchor": "end" };
    this.svg.append(svg("text", place, caption));
  }

  /** Read the values at the pointer, or the last ones. */
  point(at) {
    this.pointer = at;
    this.read();
  }

  read() {
    const { lines, x: axis } = this.data;
    const on = this.pointer !== null && this.x !== null;
    const share = on ? Math.min(1, Math.max(0, (this.pointer - this.left) / this.plotWidth)) : 1;
    const column = Math.round(share * (axis.columns - 1));
    const entries = lines.filter((line) => line.columns.length).map((line) => {
      const after = line.columns.findIndex((one) => one > column);
      const place = after < 0 ? line.columns.length - 1 : after - 1;
      return this.entry(line.key, place < 0 ? null : line.values[4 * place + 3]);
    });
    if (on) {
      const width = (axis.hi - axis.lo) / axis.columns;
      const at = axis.lo + share * (axis.hi - axis.lo);
      const when = this.clock ? this.clock.moment(at / 1000, width / 1000) : readable(Math.round(at));
      this.guide.lastChild.textContent = `at ${when}`;
      for (const side of ["x1", "x2"]) this.guide.firstChild.setAttribute(side, this.x(column));
    }
    if (this.x !== null) this.guide.setAttribute("visibility", on ? "visible" : "hidden");
    this.legend.replaceChildren(...entries);
  }

  entry(key, value) {
    const entry = element("li");
    const swatch = element("i", "swatch");
    swatch.dataset.slot = this.slots.get(key);
    const name = element("span", "", this.names.get(key) || this.data.aggregate);
    name.title = name.textContent;
    entry.append(swatch, name, element("b", "", value === null ? "" : readable(value)));
    return entry;
  }
}
