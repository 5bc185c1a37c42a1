/** The reports as text, as the terminal shows them. */

import { fill, h } from "../dom";
import { missing } from "../pieces";
import type { View } from "../view";

export const report: View = {
  id: "report",
  title: "Report",
  available: (page) => page.reports.length > 0,
  mount(root, context) {
    const { reports } = context.page;
    const shown = reports.map(({ title, html }, at) => {
      const body = h("div", { class: "report-body" });
      // Made and escaped by Python, of semantic elements only: the one place where HTML is inserted.
      body.innerHTML = html;
      return h(
        "article",
        { class: "card report", id: `report-${at}` },
        reports.length > 1 && h("h2", { class: "report-title" }, title),
        body,
      );
    });
    const jump = reports.map(({ title }, at) => {
      const go = () => (context.setParams({ report: String(at) }), shown[at]?.scrollIntoView());
      return h("button", { type: "button", class: "chip", onclick: go }, title);
    });
    const contents = reports.length > 1 && h("nav", { class: "chips", "aria-label": "Reports" }, ...jump);
    fill(
      root,
      h("div", { class: "stack" }, shown.length === 0 && missing("There is no report."), contents, ...shown),
    );
    const show = (params: URLSearchParams) => shown[Number(params.get("report") ?? NaN)]?.scrollIntoView();
    return { show, unmount() {} };
  },
};
