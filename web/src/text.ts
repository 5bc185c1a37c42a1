/** Figures and names as text: units as on the terminal, and characters that could mislead made visible. */

// Control characters, marks that change direction, invisible ones, and halves of a pair.
const MISLEADING =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** The text with control, invisible and direction-changing characters as escapes, such as \u202e. */
export function visible(text: string): string {
  return text.replace(MISLEADING, (character) => {
    if (character === "\n") return "\\n";
    if (character === "\t") return "\\t";
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

export type Figure = number | null | undefined;

const UNKNOWN = "?";

const formats = new Map<number, Intl.NumberFormat>();

/** Grouped digits: 1,234.50. */
export function decimal(value: number, digits: number): string {
  let format = formats.get(digits);
  if (!format) {
    // Making a format costs as much as writing hundreds of numbers with it.
    const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    formats.set(digits, (format = new Intl.NumberFormat("en-US", options)));
  }
  return format.format(value);
}

/** Milliseconds with as many decimals as matter: 1,050 · 131.2 · 3.70 · 0.0452. */
export function ms(value: Figure): string {
  if (value === null || value === undefined) return UNKNOWN;
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 999.95) return decimal(value, 0);
  if (size >= 99.995) return decimal(value, 1);
  if (size >= 1) return decimal(value, 2);
  return size >= 1e-6 ? value.toPrecision(3) : String(Number(value.toPrecision(1)));
}

/** A mark on an axis: no more digits than it needs. */
export function tick(value: number): string {
  return decimalAtMost(Number(value.toPrecision(6)));
}

/** Rates in GB/s; links of small messages carry thousandths. */
export function rate(value: Figure): string {
  if (value === null || value === undefined) return UNKNOWN;
  return Math.abs(value) >= 0.1 || value === 0
    ? decimal(value, value === 0 ? 0 : 1)
    : String(Number(value.toPrecision(1)));
}

function decimalAtMost(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: 6 });
}

export function signed(value: Figure, of: (value: number) => string): string {
  if (value === null || value === undefined) return UNKNOWN;
  const size = of(Math.abs(value));
  if (size.startsWith("<")) return size;
  return `${value > 0 ? "+" : value < 0 ? "−" : ""}${size}`;
}

/** Differences of a column with their signs; as in the text report 0 if none of its digits is visible. */
export function differences(values: readonly Figure[]): (value: number) => string {
  const largest = Math.max(0, ...values.map((value) => Math.abs(value ?? 0)));
  const before = largest > 0 ? Math.floor(Math.log10(largest)) + 1 : 1;
  const decimals = Math.min(Math.max(4 - Math.max(before, 1), 1) + Math.max(-before, 0), 5);
  return (value) => (Math.abs(value) < 0.5 * 10 ** -decimals ? "0" : signed(value, ms));
}

export function msRange(range: readonly [number, number]): string {
  return `${ms(range[0])} to ${ms(range[1])} ms`;
}

export function percent(share: Figure, digits = 1): string {
  if (share === null || share === undefined) return UNKNOWN;
  const size = Math.abs(share * 100);
  if (size === 0) return "0%";
  if (size > 0 && size < 0.5 * 10 ** -digits) return `<${10 ** -digits}%`;
  return `${share < 0 ? "−" : ""}${decimal(size, digits)}%`;
}

export function count(value: Figure): string {
  if (value === null || value === undefined) return UNKNOWN;
  return Number.isInteger(value) ? decimal(value, 0) : decimal(value, 1);
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Memory: powers of 1024. */
export function bytes(value: Figure): string {
  return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
}

/** Rates and work: powers of 1000, `unit` behind the prefix. */
export function large(value: Figure, unit: string): string {
  return scaled(
    value,
    1000,
    ["", "k", "M", "G", "T", "P", "E"].map((prefix) => prefix + unit),
  );
}

export function seconds(value: Figure): string {
  if (value === null || value === undefined) return UNKNOWN;
  if (value < 120) return `${decimal(value, value < 10 ? 1 : 0)} s`;
  return value < 7200 ? `${decimal(value / 60, 0)} min` : `${decimal(value / 3600, 1)} h`;
}

function scaled(value: Figure, base: number, units: string[]): string {
  if (value === null || value === undefined) return UNKNOWN;
  let size = Math.abs(value);
  let at = 0;
  while (size >= base && at < units.length - 1) {
    size /= base;
    at += 1;
  }
  const digits = at === 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${decimal(size, digits)} ${units[at]}`;
}

/** The last parts of a path or scope, for places where the whole does not fit. */
export function tail(path: string, parts: number): string {
  const all = path.split("/");
  return all.length > parts ? `…/${all.slice(-parts).join("/")}` : path;
}
