// The figures of the stream: throughput, lateness, state and windows, each with its last batches.

import { bytes, clock, duration, readable, rough } from "./axes.js";
import { element, svg } from "./charts.js";

const HEIGHT = 40;

/** Draw a card for each figure that is known. */
export function drawFigures(place, { totals, now, drawn, spent, open }) {
  const cards = [];
  if ("rows_per_second" in now) {
    const seconds = "seconds" in now ? ` in ${rough(now.seconds)} s` : "";
    const note = "rows" in now ? `last batch: ${readable(now.rows)} rows${seconds}` : "";
    const rate = [rough(now.rows_per_second), "rows/s"];
    cards.push(card("Throughput", rate, note, [drawn.rows_per_second], (v) => `${rough(v)} rows/s`));
  }
  if ("watermark" in now) {
    const [time, day] = clock(now.watermark);
    const note = "lag" in now ? `${day}, ${duration(now.lag)} behind the clock` : day;
    cards.push(card("Watermark", [time, "UTC"], note, [drawn.lag ?? [0]], duration));
  }
  const counts = Object.entries(open);
  if (counts.length) {
    const all = counts.reduce((sum, [, n]) => sum + n, 0);
    const note = counts.map(([name, n]) => `${name} ${readable(n)}`).join(", ");
    cards.push(plainCard("Open windows", [readable(all), "per key at most"], note));
  }
  const parts = Object.entries(spent).sort(([, a], [, b]) => b - a);
  if (parts.length) {
    const whole = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
    cards.push(partsCard("Last micro-batch", duration(whole).split(" "), parts, whole));
  }
  if ("late" in totals) {
    const { late, dropped = 0, bad_times: noTime = 0, bad_rows: bad = 0 } = totals;
    let without = noTime ? `, ${readable(noTime)} without a time` : "";
    without += bad ? `, ${readable(bad)} bad` : "";
    const note = element("span", dropped ? "second" : "", `${readable(dropped)} dropped${without}`);
    const lines = dropped ? [drawn.late, drawn.dropped] : [drawn.late];
    cards.push(card("Late rows", [readable(late), "rows"], note, lines, (v) => `${readable(v)} rows`));
  }
  if ("state_bytes" in now) {
    const notes = [
      "keys" in now ? `${readable(now.keys)} ${now.keys === 1 ? "key" : "keys"}` : "",
      "written_bytes" in now ? `${bytes(now.written_bytes).join(" ")} written last` : "",
    ].filter(Boolean);
    const format = (v) => bytes(v).join(" ");
    cards.push(card("State", bytes(now.state_bytes), notes.join(", "), [drawn.state_bytes], format));
  }
  if (drawn.windows) {
    const { result = 0, update = 0, retract = 0 } = totals;
    const note = `${readable(update)} corrected, ${readable(retract)} withdrawn`;
    const lines = [drawn.windows];
    cards.push(card("Windows", [readable(result), "reported"], note, lines, (v) => `${readable(v)} results`));
  }
  place.replaceChildren(...cards);
}

/** A card without a history. */
function plainCard(title, [value, unit], note) {
  const made = element("article", "card");
  const figure = element("p", "value", value);
  figure.append(element("span", "unit", unit));
  const notes = element("p", "note");
  notes.append(note);
  made.append(element("h2", "", title), figure, notes);
  return made;
}

/** A card with parts of a whole, as one bar and by their names. */
function partsCard(title, figure, parts, whole) {
  const made = plainCard(title, figure, "");
  const bar = svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", class: "parts" });
  bar.setAttribute("aria-hidden", "true");
  const names = element("ul", "parts");
  let from = 0;
  parts.forEach(([name, seconds], i) => {
    const width = (100 * seconds) / whole;
    const slot = `part-${Math.min(i, 4)}`;
    bar.append(svg("rect", { x: from, y: 0, width, height: 10, class: slot }));
    from += width;
    names.append(element("li", slot, `${name} ${duration(seconds)}`));
  });
  made.querySelector(".note").replaceWith(bar, names);
  return made;
}

function card(title, [value, unit], note, lines, format) {
  const made = plainCard(title, [value, unit], note);
  const batches = lines[0].length;
  const peak = Math.max(...lines.flat());
  const caption = `last ${batches} ${batches === 1 ? "batch" : "batches"}, up to ${format(peak)}`;
  made.append(sparkline(lines, peak), element("p", "caption", caption));
  return made;
}

/** Draw the values of batches, the last at the right edge. */
function sparkline(lines, peak) {
  const width = Math.max(...lines.map((values) => values.length - 1), 1);
  const frame = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, preserveAspectRatio: "none" });
  frame.setAttribute("aria-hidden", "true");
  lines.forEach((values, i) => {
    const from = width - values.length + 1;
    const points = values.map((v, k) => `${from + k},${HEIGHT - 1 - (v / (peak || 1)) * (HEIGHT - 3)}`);
    frame.append(svg("path", { d: `M${points.join("L")}`, class: i ? "second" : "first" }));
  });
  return frame;
}
