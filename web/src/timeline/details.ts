/** The panel at the side: everything known about what is selected, each figure with its basis. */

import { fill, h, type Child } from "../dom";
import type { Class, OpTable, Page } from "../page";
import { badge, figure } from "../pieces";
import { type Collective, explained } from "../results";
import { bytes, count, large, ms, percent } from "../text";
import { length } from "./axis";
import type { Scene } from "./scene";
import { stepAt, stepRow } from "./sides";
import { isSpan, type Spot } from "./spots";
import { occurrences } from "./walk";

export interface DetailsActions {
  close(): void;
  again(by: 1 | -1): void;
  zoom(): void;
  finding(code: string): void;
  partner(): void;
}

type Fact = [label: string, value: Child] | null;

export class Details {
  readonly element = h("aside", {
    class: "tl-details",
    "aria-label": "Details of the selection",
    hidden: true,
  });
  private readonly count = h("span", { class: "tl-count" });

  constructor(
    private readonly page: () => Page,
    private readonly actions: DetailsActions,
  ) {}

  show(scene: Scene, spot: Spot | null): void {
    this.element.hidden = spot === null;
    if (!spot) return;
    const close = h(
      "button",
      {
        type: "button",
        class: "quiet tl-close",
        "aria-label": "Close the details",
        onclick: this.actions.close,
      },
      "×",
    );
    fill(this.element, close, ...(isSpan(spot) ? this.span(scene, spot) : this.sum(spot)));
  }

  private span(scene: Scene, spot: Spot): Child[] {
    const ops = spot.side.ops;
    const op = spot.op;
    if (!ops || op === null) return [h("h2", {}, "A span without a name"), facts(time(spot))];
    const kind = ops.collective[op] ?? ops.category[op] ?? ops.lane[op] ?? "";
    fill(this.count, "…");
    void occurrences(scene, spot).then(({ count: times, place, total, longest, whole }) => {
      const about = whole ? "" : " of those in this file near it";
      fill(
        this.count,
        `${count(place)} of ${count(times)}${about} · together ${length(total)}, longest ${length(longest)}`,
      );
    });
    return [
      h("h2", { class: "tl-name", title: ops.name[op] ?? "" }, ops.name[op] ?? ""),
      h("p", { class: "tl-kind" }, swatch(classOf(ops, spot)), kind, " ", badge(spot.side.page.basis)),
      this.walk(spot),
      facts([...time(spot), ...rates(ops, spot)]),
      facts([...origins(ops, op, spot), ...pairing(ops, op, this.actions.partner)]),
      this.explained(ops, op, spot),
      this.findings(spot),
    ];
  }

  private walk(spot: Spot): HTMLElement {
    const button = (text: string, label: string, onclick: () => void) =>
      h("button", { type: "button", "aria-label": label, title: label, onclick }, text);
    const where = spot.side.page.tracks[spot.track]?.title ?? "";
    return h(
      "div",
      { class: "tl-walk" },
      button("‹", "Previous occurrence in this track (,)", () => this.actions.again(-1)),
      button("›", "Next occurrence in this track (.)", () => this.actions.again(1)),
      button("Zoom", "Zoom to it (Enter)", () => this.actions.zoom()),
      h("span", { class: "tl-track path" }, where),
      this.count,
    );
  }

  /** A bucket, an interval of the summary, or one of a fold. */
  private sum(spot: Spot): Child[] {
    if (spot.finding) return this.gap(spot);
    const track = spot.side.page.tracks[spot.track];
    const devices = track?.kind === "fold" ? spot.side.page.devices.length : 1;
    const name = spot.op === null ? null : (spot.side.ops?.name[spot.op] ?? null);
    const busy = spot.busy?.map((each) => percent(each / spot.dur)).join(" · ");
    const zoom = h("button", { type: "button", onclick: () => this.actions.zoom() }, "Zoom to the spans");
    return [
      h("h2", {}, spot.level === 0 && track?.kind === "summary" ? "Interval" : "Time summed up"),
      h(
        "p",
        { class: "tl-kind" },
        track?.kind === "fold" ? `mean of ${devices} devices ` : "",
        badge(spot.side.page.basis),
      ),
      facts([
        ...time(spot),
        spot.count ? ["Spans that start", count(spot.count)] : null,
        name ? ["Most time", h("span", { class: "path" }, name)] : null,
        busy ? ["Computing: least, median, most", busy] : null,
      ]),
      classTable(spot.times ?? {}, spot.dur * devices, devices),
      zoom,
    ];
  }

  private gap(spot: Spot): Child[] {
    const device = spot.side.page.devices[spot.side.page.tracks[spot.track]?.device ?? -1];
    return [
      h("h2", {}, "Idle time"),
      h("p", { class: "tl-kind" }, device ? `${device.name} ` : "", badge(spot.side.page.basis)),
      facts(time(spot)),
      h("div", { class: "tl-walk" }, h("button", { type: "button", onclick: () => this.actions.zoom() }, "Zoom")),
      this.findings(spot),
    ];
  }

  private explained(ops: OpTable, op: number, spot: Spot): Child {
    const row = rowOf(this.page(), ops, op);
    if (!row || spot.side.index > 0) return null;
    const why = "not known from this recording";
    return h(
      "section",
      {},
      h("h3", {}, spot.side.page.chosen ? `In step ${spot.side.page.typical} ` : "In the typical step ", badge(spot.side.page.basis)),
      facts([
        ["Slack", figure(row.slack_ms, (value) => `${ms(value)} ms`, why)],
        ["Exposed", `${ms(row.exposed_ms)} ms of ${ms(row.total_ms)} ms`],
        ["Waits for others", figure(row.wait_ms, (value) => `${ms(value)} ms`, why)],
        ["Times", count(row.count)],
      ]),
    );
  }

  private findings(spot: Spot): Child {
    const found = spot.side.page.findings.filter(({ places }) =>
      places.some(
        (place) =>
          place.op === spot.op &&
          (place.op !== null || (place.track === spot.track && place.start === spot.start)),
      ),
    );
    if (found.length === 0) return null;
    const link = (code: string, title: string) =>
      h("button", { type: "button", class: "link", onclick: () => this.actions.finding(code) }, title);
    const items = found.map(({ code, title }) => h("li", {}, h("code", {}, code), " ", link(code, title)));
    return h("section", {}, h("h3", {}, spot.finding ? "Findings" : "Findings that name it"), h("ul", { class: "tl-found" }, ...items));
  }
}

export function swatch(name: string): HTMLElement {
  return h("span", { class: `tl-swatch tl-${name}`, "aria-hidden": "true" });
}

function facts(entries: Fact[]): HTMLElement {
  const list = h("dl", { class: "tl-facts" });
  for (const entry of entries) if (entry) list.append(h("dt", {}, entry[0]), h("dd", {}, entry[1]));
  return list;
}

function time(spot: Spot): Fact[] {
  const { page } = spot.side;
  const step = stepAt(page, stepRow(page, spot.start));
  const inside = step && spot.start < step.end;
  const exposed = spot.exposed;
  return [
    ["Duration", `${length(spot.dur)} ${page.basis}`],
    inside
      ? [`Start in step ${step.number}`, `${length(spot.start - step.start)} ${page.basis}`]
      : ["Start", `${length(spot.start)} from the start`],
    exposed === null || exposed === 0
      ? null
      : ["Exposed part", `${length(exposed)} (${percent(exposed / spot.dur, 0)}) ${page.basis}`],
  ];
}

function rates(ops: OpTable, spot: Spot): Fact[] {
  const op = spot.op as number;
  const seconds = spot.dur / 1e12;
  const { basis } = spot.side.page;
  const [moved, group, factor, flops, accessed] = [
    ops.bytes[op],
    ops.group_size[op],
    ops.bus_factor[op],
    ops.flops[op],
    ops.bytes_accessed[op],
  ];
  const rate = (value: number, unit: string) =>
    seconds > 0 ? `${large(value / seconds, unit)} ${basis}` : "? (it has no length)";
  const isCollective = ops.lane[op] === "collective";
  // What starts or ends an operation does none of its work.
  const isWork = !isCollective && !/-(start|done)$/.test(ops.opcode[op] ?? "");
  return [
    isCollective ? ["Bytes", figure(moved, bytes, "the input doesn't say how much is sent")] : null,
    isCollective
      ? [
          "Group",
          figure(group, (ranks) => `${count(ranks)} ranks`, "the input doesn't say which ranks take part"),
        ]
      : null,
    isCollective && moved && factor ? ["Bus bandwidth, this time", rate(moved * factor, "B/s")] : null,
    isCollective && moved && !factor ? ["Bandwidth", rate(moved, "B/s")] : null,
    isWork && flops ? ["Compute", rate(flops, "FLOP/s")] : null,
    isWork && flops ? ["Work", large(flops, "FLOP")] : null,
    isWork && accessed ? ["Memory", rate(accessed, "B/s")] : null,
    isWork && accessed ? ["Accessed", bytes(accessed)] : null,
  ];
}

function origins(ops: OpTable, op: number, spot: Spot): Fact[] {
  const text = (label: string, value: string | null | undefined): Fact =>
    value ? [label, h("span", { class: "path" }, value)] : null;
  return [
    text("Instruction", [ops.op[op], ops.listed[op]].find((name) => name && name !== ops.name[op])),
    text("Opcode", ops.opcode[op]),
    text("Category", ops.category[op]),
    text("Phase", ops.phase[op]),
    text("Source", ops.source[op]),
    text("Scope", ops.scope[op]),
    text("Program", ops.program[op]),
    text("Priced", ops.priced[op]),
    text("Stream", spot.side.page.tracks[spot.track]?.title),
  ];
}

function pairing(ops: OpTable, op: number, go: () => void): Fact[] {
  const before = ops.pair[op];
  const after = ops.pair.indexOf(op);
  const other =
    before !== null && before !== undefined && before !== op
      ? before
      : after >= 0 && after !== op
        ? after
        : null;
  if (other === null) return [];
  const link = h("button", { type: "button", class: "link", onclick: go }, ops.name[other] ?? "");
  return [
    [
      ops.name[other] === ops.name[op] ? "Its other part" : other === before ? "Started by" : "Completed by",
      link,
    ],
  ];
}

function rowOf(page: Page, ops: OpTable, op: number): Collective | null {
  if (ops.lane[op] !== "collective") return null;
  const result = explained(page);
  const programs = new Map(result?.programs.map(({ index, name }) => [index, name]));
  const isSame = (row: Collective) => row.op === ops.op[op] || row.op === ops.name[op];
  // A profile may name an op otherwise than the program does.
  const isLike = (row: Collective) =>
    row.kind === ops.collective[op] &&
    row.bytes === ops.bytes[op] &&
    row.scope === ops.scope[op] &&
    row.source === ops.source[op] &&
    row.phase === ops.phase[op];
  const isOfProgram = (row: Collective) =>
    row.program === null || !ops.program[op] || programs.get(row.program) === ops.program[op];
  const rows = result?.collectives.filter(isOfProgram) ?? [];
  const like = rows.filter(isLike);
  return rows.find(isSame) ?? (like.length === 1 ? (like[0] as Collective) : null);
}

export function classOf(ops: OpTable, spot: Spot): string {
  const lane = spot.op === null ? "host" : (ops.lane[spot.op] ?? "host");
  if (lane !== "collective") return lane;
  return spot.exposed !== null && spot.exposed >= spot.dur / 2 ? "exposed" : "hidden";
}

const CLASSES: readonly [Class, string][] = [
  ["compute", "Compute"],
  ["hidden", "Communication, hidden"],
  ["exposed", "Communication, exposed"],
  ["copy", "Copies"],
  ["control", "Control"],
  ["host", "Host"],
];

/** Time of each class and what is idle, of `whole`. */
export function classTable(
  times: Partial<Record<Class, number>>,
  whole: number,
  devices: number,
): HTMLElement {
  const known = CLASSES.filter(([name]) => times[name]);
  const busy = known.reduce((sum, [name]) => sum + (times[name] ?? 0), 0);
  const row = (name: string, label: string, value: number) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, swatch(name), label),
      h("td", {}, length(value / devices)),
      h("td", {}, percent(whole > 0 ? value / whole : null)),
    );
  const rows = known.map(([name, label]) => row(name, label, times[name] ?? 0));
  return h(
    "table",
    { class: "tl-classes" },
    h("tbody", {}, ...rows, row("idle", "Idle", Math.max(whole - busy, 0))),
  );
}
