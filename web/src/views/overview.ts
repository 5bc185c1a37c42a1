/** The step in one page: its time, where it goes, what could be saved, how well the chip is used. */

import { fill, h } from "../dom";
import { notes } from "../pieces";
import { basisOf, explained, predicted } from "../results";
import type { View } from "../view";
import { findings } from "./findings";
import { machine, phases, utilisation } from "./machine";
import { memory } from "./memory";
import { stepTime } from "./steptime";
import { stepsOverRun } from "./steps";

export const overview: View = {
  id: "overview",
  title: "Overview",
  available: (page) => explained(page) !== null,
  mount(root, context) {
    const step = explained(context.page);
    if (!step) return { show() {}, unmount() {} };
    const basis = basisOf(context.page);
    const run = stepsOverRun(context, basis);
    const kept = memory(context.page);
    const side = h(
      "div",
      { class: "stack" },
      utilisation(step, basis),
      phases(step, basis),
      kept.element,
      machine(step, predicted(context.page)),
      notes("Notes", step.notes),
    );
    const main = h(
      "div",
      { class: "stack" },
      stepTime(step, basis, predicted(context.page)),
      findings(step, context),
      run.element,
    );
    fill(root, h("div", { class: "overview" }, main, side));
    return { show() {}, unmount: () => (run.stop(), kept.stop()) };
  },
};
