// Axes: round places for ticks, and numbers and times as people write them.

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const SECOND = 1000; // times are milliseconds here, with fractions
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const TIME_STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 7, 14, 30, 90, 365].map((n) => n * DAY),
];
const exact = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

/** Return a number with at most six digits. */
export function readable(value) {
  const size = Math.abs(value);
  if (size >= 1e15 || (size < 1e-4 && size > 0)) return value.toExponential(3);
  return size >= 1e5 ? whole.format(value) : exact.format(value);
}

/** Return a number with no more digits than a glance takes in. */
export function rough(value) {
  return Math.abs(value) >= 100 ? whole.format(value) : readable(Number(value.toPrecision(3)));
}

/** Return seconds with a unit that suits them. */
export function duration(seconds) {
  const size = Math.abs(seconds);
  if (size < 1) return `${rough(seconds * 1000)} ms`;
  if (size < 120) return `${rough(seconds)} s`;
  if (size < 7200) return `${rough(seconds / 60)} min`;
  return size < 172800 ? `${rough(seconds / 3600)} h` : `${rough(seconds / 86400)} days`;
}

/** Return a moment's time of day and its day, in UTC. */
export function clock(seconds) {
  const at = new Date(seconds * 1000).toISOString();
  const [year, month, day] = at.slice(0, 10).split("-").map(Number);
  return [at.slice(11, 19), `${day} ${MONTHS[month - 1]} ${year}`];
}

function short(value) {
  const size = Math.abs(value);
  return size >= 1e15 || (size < 1e-3 && size > 0) ? value.toExponential(1) : compact.format(value);
}

/** Return bytes as a number and its unit. */
export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(value || 1) / 3)));
  return [compact.format(value / 1000 ** power), units[power]];
}

/** Return the bounds of an axis that shows all values, and its ticks: [place, label]. */
export function valueAxis(lo, hi, most) {
  if (lo >= 0 && lo < hi / 2) lo = 0;
  if (hi <= 0 && hi > lo / 2) hi = 0;
  if (lo === hi) [lo, hi] = lo === 0 ? [0, 1] : [lo - Math.abs(lo) / 10, hi + Math.abs(hi) / 10];
  const step = roundStep((hi - lo) / most);
  const first = Math.floor(lo / step + 1e-9);
  const last = Math.ceil(hi / step - 1e-9);
  const ticks = [];
  for (let k = first; k <= last; k++) ticks.push([k * step, numberLabel(k * step, step)]);
  return { lo: first * step, hi: last * step, ticks };
}

/** Return ticks between two numbers: [place, label]. */
export function numberTicks(lo, hi, most) {
  const step = Math.max(1, roundStep((hi - lo) / most)); // ends are whole numbers
  const ticks = [];
  for (let k = Math.ceil(lo / step); k * step <= hi; k++) {
    ticks.push([k * step, whole.format(k * step)]);
  }
  return ticks;
}

function numberLabel(value, step) {
  if (Math.max(Math.abs(value), step) >= 1e5 || step < 1e-5) return value === 0 ? "0" : short(value);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function roundStep(rough) {
  if (!(rough > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough * (1 - 1e-9));
}

/** Times of one zone. One without a zone is shown as it is. */
export class Clock {
  constructor(zone) {
    this.zone = zone;
    try {
      this.format = new Intl.DateTimeFormat("en", {
        timeZone: zone ?? "UTC", hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric",
        hour: "numeric", minute: "numeric", second: "numeric",
      });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.zone = "UTC"; // the browser does not know the zone; the caption says what is shown
      this.format = null;
    }
  }

  /** Return how far the zone's clocks are ahead of UTC at a time. */
  offset(at) {
    if (this.format === null || this.zone === null) return 0;
    const now = Object.fromEntries(this.format.formatToParts(at).map((p) => [p.type, Number(p.value)]));
    const wall = Date.UTC(now.year, now.month - 1, now.day, now.hour, now.minute, now.second);
    return wall - Math.floor(at / SECOND) * SECOND;
  }

  /** Return ticks between two times: [place, label]. */
  ticks(lo, hi, most) {
    const rough = (hi - lo) / most;
    const step = rough < SECOND / 2
      ? Math.max(0.001, roundStep(rough))
      : TIME_STEPS.find((one) => one >= rough) ?? Math.ceil(rough / DAY) * DAY;
    const ticks = [];
    const offset = this.offset(lo);
    for (let k = Math.ceil((lo + offset) / step); k * step - offset <= hi; k++) {
      ticks.push([k * step - offset, this.label(k * step - offset, step)]);
    }
    return ticks;
  }

  label(at, step) {
    const wall = new Date(at + this.offset(at));
    const midnight = wall.getTime() % DAY === 0;
    if (step >= DAY || midnight) return `${wall.getUTCDate()} ${MONTHS[wall.getUTCMonth()]}`;
    const text = wall.toISOString();
    if (step >= MINUTE) return text.slice(11, 16);
    return step >= SECOND ? text.slice(11, 19) : text.slice(17, 23);
  }

  /** Return a time of day, to the second or finer if the steps between times are. */
  moment(at, step) {
    return new Date(at + this.offset(at)).toISOString().slice(11, step >= SECOND ? 19 : 23);
  }

  /** Return the day or days of a stretch, with the zone if there is one. */
  days(lo, hi) {
    const [first, last] = [lo, hi].map((at) => new Date(at + this.offset(at)));
    const day = (date) => `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
    const days = day(first) === day(last) ? day(last) : `${day(first)} to ${day(last)}`;
    return this.zone === null ? days : `${days}, ${this.zone}`;
  }
}
