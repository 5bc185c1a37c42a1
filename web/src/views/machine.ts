/** How well the chip is used: utilisation, phases; and what was read. */

import { meter } from "../charts/bar";
import { h, type Child } from "../dom";
import { badge, figure, missing, section, unknown } from "../pieces";
import type { Explained, Predicted } from "../results";
import { large, ms, percent, plural } from "../text";

export function utilisation({ utilisation: use }: Explained, basis: string): HTMLElement {
  const noChip = "the chip is not known; name it with --target";
  const noFlops = "the program's FLOPs are not known: a profile without its program";
  const rows: [string, number | null, string, string | null][] = [
    ["busy", use.busy_share, "no op was recorded", null],
    [
      "MFU",
      use.mfu,
      use.chip ? noFlops : noChip,
      use.flops_per_s === null
        ? null
        : large(use.flops_per_s - (use.recomputed_flops_per_s ?? 0), "FLOP/s"),
    ],
    [
      "HFU",
      use.hfu,
      use.chip ? noFlops : noChip,
      use.flops_per_s === null ? null : large(use.flops_per_s, "FLOP/s"),
    ],
    [
      "HBM bandwidth",
      use.hbm_share,
      use.chip ? "the bytes that ops move are not known" : noChip,
      use.bytes_per_s === null ? null : large(use.bytes_per_s, "B/s"),
    ],
  ];
  const shown = rows.map(([name, share, reason, rate]) =>
    h(
      "div",
      { class: "use" },
      h("dt", {}, name),
      h(
        "dd",
        {},
        h(
          "b",
          {},
          figure(share, (value) => percent(value), reason),
        ),
        share === null ? null : meter(share),
        h("span", { class: "muted" }, rate),
      ),
    ),
  );
  const partly = use.flops_known_share !== null && use.flops_known_share < 0.995;
  return section(
    "Utilization",
    h("span", {}, use.chip ?? "", " ", badge(basis)),
    h("dl", { class: "uses" }, ...shown),
    partly &&
      h(
        "p",
        { class: "fine" },
        `FLOPs are known for ${percent(use.flops_known_share, 0)} of the compute time: the true MFU and HFU are higher.`,
      ),
    use.flops_per_s !== null &&
      h(
        "p",
        { class: "fine" },
        use.recomputed_flops_per_s === null
          ? "HFU is the share of the chip's dense bf16 peak. Phases are not known, so MFU includes recomputation, too."
          : "HFU is the share of the chip's dense bf16 peak; MFU leaves out what is recomputed for the backward pass.",
      ),
  );
}

export function phases({ phases: found }: Explained, basis: string): HTMLElement {
  const rows = Object.entries(found ?? {}).flatMap(([key, value]) =>
    value ? [{ name: key.replace(/_ms$/, ""), ms: value }] : [],
  );
  const whole = rows.reduce((sum, row) => sum + row.ms, 0);
  if (rows.length === 0)
    return section(
      "Phases",
      badge(basis),
      missing("Unknown: names of ops tell neither forward nor backward."),
    );
  const shown = rows.map((row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, row.name),
      h("td", { class: "wide" }, meter(row.ms / whole, "compute")),
      h("td", { class: "num" }, ms(row.ms)),
      h("td", { class: "num" }, percent(row.ms / whole)),
    ),
  );
  const head = h(
    "tr",
    {},
    h("th", { scope: "col" }, "phase"),
    h("td", {}),
    h("th", { scope: "col", class: "num" }, "ms"),
    h("th", { scope: "col", class: "num" }, "of busy"),
  );
  return section(
    "Phases",
    badge(basis),
    h(
      "table",
      { class: "data" },
      h("caption", { class: "sr" }, "Busy time by phase"),
      h("thead", {}, head),
      h("tbody", {}, ...shown),
    ),
  );
}

function devicesOf(step: Explained, foreseen: Predicted | null): string {
  const chip = step.utilisation.chip ?? step.device_kind.replace(/^[cgt]pu$/, (kind) => kind.toUpperCase());
  const all = foreseen?.prediction.devices ?? step.devices;
  return `${all} × ${chip}${all === step.devices ? "" : `, of which ${step.devices} was simulated`}`;
}

/** Processes of one machine have its name, with a number behind it. */
function hostsOf({ hosts, host_clocks: each }: Explained): string {
  const machines = new Set(each.map(({ name }) => name.replace(/ (#\d+|\(process \d+\))$/, ""))).size;
  if (machines === 0 || machines >= each.length) return String(hosts);
  return `${plural(each.length, "process", "processes")} on ${plural(machines, "host")}`;
}

/** The program of the step, and how much of the devices' time others take. */
function programsOf({ programs }: Explained): Child {
  const main = programs.find((program) => program.is_step);
  if (!main)
    return unknown(programs.length ? "none of those that ran was identified as the step" : "none was recorded");
  const runs = `${main.name}, ${plural(main.executions, "run")} on each device`;
  if (programs.length === 1) return runs;
  const time = programs.reduce((sum, program) => sum + program.device_ms, 0);
  const others = plural(programs.length - 1, "other program");
  return `${runs}; ${others}, ${percent(1 - main.device_ms / (time || 1), 0)} of device time`;
}

export function machine(step: Explained, foreseen: Predicted | null): HTMLElement {
  const rows: [string, Child][] = [
    ["devices", devicesOf(step, foreseen)],
    foreseen ? ["target", foreseen.prediction.target] : ["hosts", hostsOf(step)],
    ["program", programsOf(step)],
    ["inputs", h("span", {}, ...step.inputs.map((input) => h("span", { class: "path" }, input)))],
  ];
  return section(
    foreseen ? "What was simulated" : "What was read",
    null,
    h("dl", { class: "facts" }, ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
  );
}
