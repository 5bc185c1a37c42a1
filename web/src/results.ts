/** The results that a page holds, by command. */

import type { Page } from "./page";
import type { Compare, Explained, NetworkJson, Predict, Tune } from "./records";

export type {
  ArmResult as TuneArm,
  BreakdownJson as Breakdown,
  CandidateJson as Candidate,
  ChangeJson as Change,
  CollectiveJson as Collective,
  Compare as Compared,
  Estimated as Estimate,
  Explained,
  FiguresJson as Figures,
  FindingJson as Finding,
  NetworkJson as Network,
  OpChangeJson as OpChange,
  OpJson as Op,
  Predict as Predicted,
  StepsJson as StepTimes,
  Tune as Tuned,
  UtilizationJson as Utilisation,
} from "./records";

export type Range = [number, number];

function result<Kind>(page: Page, command: string): Kind | null {
  return (page.results[command] as Kind | undefined) ?? null;
}

export const predicted = (page: Page): Predict | null => result<Predict>(page, "predict");
export const network = (page: Page): NetworkJson | null => result<NetworkJson>(page, "network");
export const compared = (page: Page): Compare | null => result<Compare>(page, "compare");
export const tuned = (page: Page): Tune | null => result<Tune>(page, "tune");

/** The step's explanation: of `explain`, or the part of `predict` that is one. */
export function explained(page: Page): Explained | null {
  return result<Explained>(page, "explain") ?? predicted(page);
}

/** What the figures of the explanation are. */
export function basisOf(page: Page): string {
  return saidBasis(page) ?? "measured";
}

/** The basis that a result or a timeline states; null for a page of documents alone. */
export function saidBasis(page: Page): string | null {
  const said = result<{ basis?: unknown }>(page, "explain")?.basis;
  if (typeof said === "string") return said;
  if (predicted(page)) return "predicted";
  const fleet = result<{ basis?: string }>(page, "fleet")?.basis;
  const others = [network(page)?.basis, tuned(page)?.basis, fleet, page.timelines[0]?.basis];
  return others.find((basis) => basis !== undefined) ?? null;
}
