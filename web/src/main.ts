import "./style.css";
import "./timeline/timeline.css";
import { openSource } from "./source";
import { timelineView } from "./timeline/view";
import type { Context } from "./view";

const source = openSource();
void source.page().then((page) => {
  const context: Context = { page, source, navigate() {}, setParams() {}, refresh: () => () => {} };
  timelineView.mount(document.body, context).show(new URLSearchParams(location.hash.slice(1)));
});
