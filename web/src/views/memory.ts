/** Memory: what the allocators of devices gave out over time, or the peak that the compiler planned. */

import { meter } from "../charts/bar";
import { curve } from "../charts/curve";
import { h, type Child } from "../dom";
import { badge, missing, section, unknown } from "../pieces";
import { predicted } from "../results";
import type { MemoryCurve, Page, TimelinePage } from "../page";
import { bytes, plural, tick } from "../text";

export function memory(page: Page): { element: HTMLElement; stop(): void } {
  const timeline = page.timelines[0];
  if (timeline && timeline.memory.length > 0) return overTime(timeline);
  return { element: planned(page), stop() {} };
}

function overTime(timeline: TimelinePage): { element: HTMLElement; stop(): void } {
  const { memory: curves, devices, basis } = timeline;
  const fullest = curves.reduce((one, other) => (other.most > one.most ? other : one));
  const of = devices[fullest.device]?.name ?? "a device";
  const limit = fullest.limit ? ` of the ${bytes(fullest.limit)} that its allocator may give out` : "";
  const [size, unit] = scaleOf(fullest.most);
  const drawn = curve({
    label: `Memory given out on ${of} over the recording: ${bytes(fullest.most)} at most`,
    height: 130,
    x: [...fullest.at, timeline.end].map((ps) => ps / 1e12),
    curves: [
      {
        title: of,
        stroke: "--compute",
        values: [...fullest.used, fullest.used[fullest.used.length - 1] as number].map((it) => it / size),
        style: "steps",
      },
    ],
    xText: (value) => `${tick(value)} s`,
    yText: tick,
    yFrom: 0,
  });
  const element = section(
    "Memory",
    h("span", {}, `${of}, ${unit} `, badge(basis)),
    h(
      "p",
      { class: "headline small" },
      h("span", { class: "big" }, bytes(fullest.most)),
      h("span", { class: "what" }, `at most${limit}`),
    ),
    drawn.element,
    h("p", { class: "fine" }, ...notes(curves, fullest)),
  );
  return { element, stop: drawn.stop };
}

function notes(curves: readonly MemoryCurve[], fullest: MemoryCurve): Child[] {
  const others = curves.filter((each) => each !== fullest).map((each) => each.most);
  const [least, most] = [Math.min(...others), Math.max(...others)];
  const range = bytes(least) === bytes(most) ? bytes(most) : `${bytes(least)} to ${bytes(most)}`;
  const earlier = (fullest.peak ?? 0) > fullest.most;
  return [
    others.length > 0 && `${plural(others.length, "other device")}: ${range} at most. `,
    earlier && `Before the recording it was up to ${bytes(fullest.peak)}. `,
    "Changes are at the time of the host: devices may get to the ops later.",
  ];
}

function scaleOf(most: number): [number, string] {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(Math.floor(Math.log2(Math.max(most, 1)) / 10), units.length - 1);
  return [1024 ** power, units[power] as string];
}

function planned(page: Page): HTMLElement {
  const step = predicted(page)?.prediction;
  if (step && step.peak_bytes === null) {
    const reason = "XLA did not compile this program here, so it planned no memory for it";
    return section("Memory", badge("predicted"), missing(unknown(reason), ` Unknown: ${reason}.`));
  }
  if (!step || step.peak_bytes === null) {
    return section(
      "Memory",
      null,
      missing(
        unknown("no allocator's events are in what was read"),
        " Not recorded: the profile has no events of the devices' allocators. ",
        h("code", {}, "counterpoint predict"),
        " plans the peak.",
      ),
    );
  }
  const limit = step.available_bytes;
  const share = limit ? step.peak_bytes / limit : null;
  return section(
    "Memory",
    badge("predicted"),
    h(
      "p",
      { class: "headline small" },
      h("span", { class: "big" }, bytes(step.peak_bytes)),
      h("span", { class: "what" }, limit ? `peak, of ${bytes(limit)} that the allocator has` : "peak"),
    ),
    share !== null && meter(share, share > 1 ? "bad" : "accent"),
    h(
      "p",
      { class: "fine" },
      step.fits === null
        ? "Whether it fits is unknown."
        : step.fits
          ? "It fits. The peak is the compiler's plan; memory over time is not simulated."
          : "It does not fit.",
    ),
  );
}
