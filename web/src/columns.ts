/** The columns of a table whose rows are those of a result: what they show is said in records.ts. */

import { h, type Child } from "./dom";
import { figure, unknown } from "./pieces";
import type { FieldColumn } from "./records";
import type { Column } from "./table";
import { bytes, count, decimal, ms, msRange, percent, rate, signed } from "./text";

type Text = (value: number) => string;

const NUMBERS: Partial<Record<FieldColumn["form"], (digits: number) => Text>> = {
  ms: () => ms,
  us: () => (us) => decimal(us, 3),
  difference: () => (difference) => signed(difference, ms),
  share: (digits) => (share) => percent(share, digits),
  count: () => count,
  bytes: () => bytes,
  "GB/s": () => rate,
};

/** The columns of these fields; a cell may be drawn by hand, by the field's key. */
export function fieldColumns<Row extends object>(
  fields: readonly FieldColumn[],
  drawn: Record<string, (row: Row) => Child> = {},
): Column<Row>[] {
  return fields.map((field) => {
    const text = NUMBERS[field.form]?.(field.digits);
    const at = (row: Row): unknown => (row as Record<string, unknown>)[field.key] ?? null;
    const cell = (row: Row): Child => {
      const value = at(row);
      if (text) return figure(value as number | null, text, field.unknown);
      if (value === null) return field.unknown ? unknown(field.unknown) : "";
      if (field.form === "range") return msRange(value as [number, number]);
      return field.form === "place" ? where(String(value), 3) : String(value);
    };
    return {
      title: field.title,
      hint: field.meaning.replaceAll("`", ""),
      numeric: text !== undefined,
      value: (row) => (field.form === "range" ? first(at(row)) : (at(row) as number | string | null)),
      cell: drawn[field.key] ?? cell,
    };
  });
}

function first(range: unknown): number | null {
  return Array.isArray(range) ? (range[0] as number) : null;
}

/** A place that is cut at its end; with `parts`, the last of a longer path: they name the file and the line. */
export function where(text: string | null, parts = Infinity): HTMLElement {
  const names = (text ?? "").split("/");
  const shown = names.length > parts ? `…/${names.slice(-parts).join("/")}` : text;
  return h("span", { class: "path cut", title: text }, shown ?? "");
}
