import type { View } from "../view";

export const timelineView: View = {
  id: "timeline",
  title: "Timeline",
  available: (page) => page.timelines.length > 0,
  mount(root) {
    root.textContent = "The timeline is not drawn yet.";
    return { show() {}, unmount() { root.textContent = ""; } };
  },
};
