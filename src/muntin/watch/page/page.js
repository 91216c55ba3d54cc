// The page: asks for drawings of what is to be seen, and shows them as they come.

import { Chart, MARGINS, element } from "./charts.js";
import { drawFigures } from "./figures.js";

const SLOTS = 8; // as many colours as there are
const inOrder = new Intl.Collator("en", { numeric: true }).compare;
const byId = (id) => document.getElementById(id);
const charts = new Map();
const slots = new Map();
const asked = { last: 1000, keys: null, aggregates: {}, columns: 600 };
let events = null;
let drawing = null;

function connect() {
  events?.close();
  const query = new URLSearchParams({ columns: asked.columns, last: asked.last });
  if (asked.keys !== null) query.set("chosen", "yes");
  for (const key of asked.keys ?? drawing?.shown ?? []) query.append("key", key);
  for (const [name, chosen] of Object.entries(asked.aggregates)) query.set(`aggregate.${name}`, chosen);
  events = new EventSource(`events?${query}`);
  events.addEventListener("about", (event) => about(JSON.parse(event.data)));
  events.addEventListener("drawing", (event) => draw(JSON.parse(event.data)));
  events.addEventListener("error", () => status("gone", "not live: the query or its server has stopped"));
}

function status(state, text) {
  byId("status").dataset.state = state;
  byId("status").textContent = text;
}

function about({ title, keys, plan }) {
  document.title = title;
  byId("title").textContent = title;
  byId("plan").querySelector("pre").textContent = plan;
  byId("keys").dataset.names = keys.join(", ");
  if (drawing === null) status("waiting", "waiting for the first windows");
}

function draw(news) {
  drawing = news;
  const { figures } = news;
  const keys = news.keys.sort((a, b) => inOrder(a.name, b.name));
  const shown = keys.map(({ id }) => id).filter((id) => news.shown.includes(id));
  const known = Object.keys(figures.drawn).length > 0;
  if (known) status("live", `live, ${new Date().toLocaleTimeString("en-GB")}`);
  drawFigures(byId("figures"), figures);
  chooser(keys, shown);
  colour(shown);
  const names = new Map(keys.map(({ id, name }) => [id, name]));
  for (const data of news.charts) {
    data.lines.sort((a, b) => shown.indexOf(a.key) - shown.indexOf(b.key));
    if (!charts.has(data.window)) add(data.window);
    charts.get(data.window).draw(data, slots, names);
  }
}

function add(name) {
  const chart = new Chart((window, aggregate) => {
    asked.aggregates[window] = aggregate;
    connect();
  });
  charts.set(name, chart);
  byId("charts").append(chart.root);
  fit();
}

/** Give each key a colour, and let it keep it. */
function colour(shown) {
  for (const key of slots.keys()) if (!shown.includes(key)) slots.delete(key);
  const free = [...Array(SLOTS).keys()].filter((slot) => ![...slots.values()].includes(slot));
  for (const key of shown) if (!slots.has(key)) slots.set(key, free.shift());
}

/** List the keys to choose from. It stays as it is while someone chooses. */
function chooser(keys, shown) {
  const place = byId("keys");
  place.hidden = keys.length < 2;
  const label = place.dataset.names ? `keys by ${place.dataset.names}` : "keys";
  place.querySelector("summary").textContent = `${label}: ${shown.length} of ${keys.length} shown`;
  if (place.open) return;
  const choices = keys.map(({ id, name }) => {
    const box = element("input");
    Object.assign(box, { type: "checkbox", value: id, checked: shown.includes(id) });
    const label = element("label");
    label.append(box, element("span", "", name));
    return label;
  });
  place.querySelector("div").replaceChildren(...choices);
  limit();
}

function limit() {
  const boxes = [...byId("keys").querySelectorAll("input")];
  const full = boxes.filter((box) => box.checked).length >= SLOTS;
  for (const box of boxes) box.disabled = full && !box.checked;
}

/** Ask for as many columns as a chart has pixels. */
function fit() {
  const [first] = charts.values();
  if (!first) return;
  const columns = Math.round(first.svg.getBoundingClientRect().width - MARGINS);
  const wanted = Math.min(2000, Math.max(50, columns));
  if (wanted === asked.columns) return;
  asked.columns = wanted;
  connect();
}

byId("keys").addEventListener("change", () => {
  limit();
  const boxes = [...byId("keys").querySelectorAll("input:checked")];
  asked.keys = boxes.map((box) => Number(box.value));
  connect();
});
document.addEventListener("click", (event) => {
  if (!byId("keys").contains(event.target)) byId("keys").open = false;
});
byId("last").addEventListener("change", (event) => {
  asked.last = Number(event.target.value);
  connect();
});
let resized = 0;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(fit, 200);
});
connect();
