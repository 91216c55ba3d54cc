// The figures of the stream: throughput, lateness, state and windows, each with its last batches.

import { bytes, readable, short } from "./axes.js";
import { element, svg } from "./charts.js";

const WIDTH = 120; // as many batches as the board remembers
const HEIGHT = 40;

/** Draw a card for each figure that is known. */
export function drawFigures(place, { totals, now, drawn }) {
  const cards = [];
  if ("rows_per_second" in now) {
    const seconds = "seconds" in now ? ` in ${readable(now.seconds)} s` : "";
    const note = "rows" in now ? `${readable(now.rows)} rows${seconds} in the last batch` : "";
    const rate = [short(now.rows_per_second), "rows/s"];
    cards.push(card("Throughput", rate, note, [drawn.rows_per_second], (v) => `${short(v)} rows/s`));
  }
  if ("late" in totals) {
    const note = element("span", "second", `${readable(totals.dropped ?? 0)} dropped`);
    const lines = [drawn.late, drawn.dropped ?? []];
    cards.push(card("Late rows", [readable(totals.late), "rows"], note, lines, (v) => `${short(v)} rows`));
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
    cards.push(card("Windows", [readable(result), "reported"], note, lines, (v) => `${short(v)} results`));
  }
  place.replaceChildren(...cards);
}

function card(title, [value, unit], note, lines, format) {
  const made = element("article", "card");
  const figure = element("p", "value", value);
  figure.append(element("span", "unit", unit));
  const batches = lines[0].length;
  const peak = Math.max(...lines.flat());
  const caption = `last ${batches} ${batches === 1 ? "batch" : "batches"}, up to ${format(peak)}`;
  const notes = element("p", "note");
  notes.append(note);
  made.append(element("h2", "", title), figure, notes);
  made.append(sparkline(lines, peak), element("p", "caption", caption));
  return made;
}

/** Draw values that come in from the right. */
function sparkline(lines, peak) {
  const frame = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" });
  frame.setAttribute("aria-hidden", "true");
  lines.forEach((values, i) => {
    const from = WIDTH - values.length;
    const points = values.map((v, k) => `${from + k},${HEIGHT - 1 - (v / (peak || 1)) * (HEIGHT - 3)}`);
    if (points.length) frame.append(svg("path", { d: `M${points.join("L")}`, class: i ? "second" : "first" }));
  });
  return frame;
}
