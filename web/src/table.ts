/** A table that sorts by a click on a heading, and filters by text; long ones show their start first. */

import { fill, h, type Child } from "./dom";
import { count } from "./text";

export interface Column<Row> {
  title: string;
  /** Explains the heading. */
  hint?: string;
  /** Numbers are sorted from the largest, texts from A; null goes last. */
  value(row: Row): number | string | null;
  cell(row: Row): Child;
  numeric?: boolean;
  /** Takes the width that is left, and is cut at its end. */
  wide?: boolean;
}

interface Options<Row> {
  caption: string;
  columns: Column<Row>[];
  rows: readonly Row[];
  /** Number of the column sorted by at first; none: the order of the rows. */
  sort?: number;
  /** The text in which the filter looks; none: there is no filter. */
  text?(row: Row): string;
  /** Opens a row: makes a button of its first cell. */
  open?(row: Row): void;
  openHint?: string;
  limit?: number;
}

/** So many rows need no filter. */
const FEW = 8;

export function table<Row>(options: Options<Row>): HTMLElement {
  return new Table(options).element;
}

class Table<Row> {
  readonly element: HTMLElement;
  private readonly head = h("thead");
  private readonly body = h("tbody");
  private readonly foot = h("div", { class: "table-foot" });
  private sort: number | null;
  private descending = true;
  private wanted = "";
  private limit: number;

  constructor(private readonly options: Options<Row>) {
    this.sort = options.sort ?? null;
    this.limit = options.limit ?? 50;
    if (this.sort !== null) this.descending = this.numeric(this.sort);
    const scroll = h(
      "div",
      { class: "table-scroll", tabindex: 0, role: "region", "aria-label": options.caption },
      h("table", { class: "data" }, h("caption", { class: "sr" }, options.caption), this.head, this.body),
    );
    this.element = h(
      "div",
      { class: "table" },
      options.text && options.rows.length > FEW ? this.filter() : null,
      scroll,
      this.foot,
    );
    this.draw();
  }

  private numeric(at: number): boolean {
    return this.options.columns[at]?.numeric ?? false;
  }

  private filter(): HTMLElement {
    const input = h("input", {
      type: "search",
      placeholder: "Filter",
      "aria-label": `Filter: ${this.options.caption}`,
      oninput: () => {
        this.wanted = input.value.toLowerCase();
        this.draw();
      },
    });
    return h("div", { class: "table-tools" }, input);
  }

  private rows(): Row[] {
    const { text, rows, columns } = this.options;
    const found = rows.filter(
      (row) => !text || !this.wanted || text(row).toLowerCase().includes(this.wanted),
    );
    const column = this.sort === null ? undefined : columns[this.sort];
    if (!column) return found;
    const sign = this.descending ? -1 : 1;
    return found
      .map((row) => ({ row, value: column.value(row) }))
      .sort((one, other) => {
        if (one.value === null || other.value === null)
          return Number(one.value === null) - Number(other.value === null);
        return one.value < other.value ? -sign : one.value > other.value ? sign : 0;
      })
      .map(({ row }) => row);
  }

  private draw(): void {
    const found = this.rows();
    fill(this.head, h("tr", {}, ...this.options.columns.map((column, at) => this.heading(column, at))));
    fill(this.body, ...found.slice(0, this.limit).map((row) => this.row(row)));
    const rest = found.length - this.limit;
    const more =
      rest > 0 &&
      h("button", { type: "button", class: "quiet", onclick: () => this.all() }, `Show ${count(rest)} more`);
    const none = found.length === 0 && h("span", { class: "muted" }, this.wanted ? "No rows match." : "None.");
    fill(this.foot, more, none);
  }

  private all(): void {
    this.limit = Infinity;
    this.draw();
  }

  private heading(column: Column<Row>, at: number): HTMLElement {
    const sorted = this.sort === at;
    const order = sorted ? (this.descending ? "descending" : "ascending") : null;
    const arrow = sorted ? (this.descending ? " ↓" : " ↑") : "";
    const button = h(
      "button",
      { type: "button", title: column.hint ?? null, onclick: () => this.sortBy(at) },
      column.title,
      h("span", { "aria-hidden": "true" }, arrow),
    );
    return h("th", { scope: "col", class: css(column), "aria-sort": order }, button);
  }

  private sortBy(at: number): void {
    this.descending = this.sort === at ? !this.descending : this.numeric(at);
    this.sort = at;
    this.draw();
    this.head.querySelectorAll("button")[at]?.focus();
  }

  private row(row: Row): HTMLElement {
    const { columns, open, openHint } = this.options;
    const cells = columns.map((column, at) => {
      const shown = column.cell(row);
      if (at > 0) return h("td", { class: css(column) }, shown);
      const named = open
        ? h(
            "button",
            { type: "button", class: "link", title: openHint ?? null, onclick: () => open(row) },
            shown,
          )
        : shown;
      const whole = typeof shown === "string" ? shown : null; // a long name is cut
      return h("th", { scope: "row", class: css(column), title: whole }, named);
    });
    return h("tr", {}, ...cells);
  }
}

function css<Row>(column: Column<Row>): string | null {
  return [column.numeric && "num", column.wide && "wide"].filter(Boolean).join(" ") || null;
}
