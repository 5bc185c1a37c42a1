/** What the commands print with --json, as far as the views show it: docs/reference/*-json.md. */

import type { Page } from "./page";

export type Range = [number, number];
type Maybe = number | null;

export interface Breakdown {
  compute_ms: Maybe;
  collective_exposed_ms: Maybe;
  /** The part of compute that overlaps a collective. */
  collective_hidden_ms: Maybe;
  copy_exposed_ms: Maybe;
  idle_ms: Maybe;
}

export interface Op {
  op: string;
  category: string;
  phase: string | null;
  scope: string | null;
  source: string | null;
  count: number;
  self_ms: number;
  share: Maybe;
  program: Maybe;
  flops: Maybe;
  bytes_accessed: Maybe;
}

export interface Collective {
  op: string;
  kind: string | null;
  bytes: Maybe;
  group_size: Maybe;
  count: number;
  total_ms: number;
  exposed_ms: number;
  hidden_share: Maybe;
  wait_ms: Maybe;
  busbw_gbps: Maybe;
  median_ms: number;
  slack_ms: Maybe;
  phase: string | null;
  scope: string | null;
  source: string | null;
  program: Maybe;
}

export interface Finding {
  code: string;
  title: string;
  detail: string;
  saves_ms: Range | null;
  mean_step_ms: Maybe;
  basis: string;
  evidence: { what: string; ms: Maybe }[];
  remedy: string;
  settings: { xla: Record<string, string>; env: Record<string, string> };
  doubt: string | null;
}

export interface Utilisation {
  chip: string | null;
  busy_share: Maybe;
  flops_per_s: Maybe;
  flops_known_share: Maybe;
  mfu: Maybe;
  hfu: Maybe;
  recomputed_flops_per_s: Maybe;
  bytes_per_s: Maybe;
  hbm_share: Maybe;
}

export interface StepTimes {
  count: number;
  median_ms: Maybe;
  min_ms: Maybe;
  max_ms: Maybe;
  p10_ms: Maybe;
  p90_ms: Maybe;
  execution_ms: Maybe;
  window: string;
  window_ms: Maybe;
  how: string;
  run_median_ms: Maybe;
  run_steps: Maybe;
}

export interface Explained {
  inputs: string[];
  notes: string[];
  hosts: number;
  /** One entry per process that was profiled. */
  host_clocks: { name: string }[];
  devices: number;
  device_kind: string;
  programs: { index: number; name: string; executions: number; device_ms: number; is_step: boolean }[];
  steps: StepTimes;
  breakdown: Breakdown | null;
  device_breakdowns: (Breakdown & { device: number })[];
  phases: Record<string, Maybe> | null;
  ops: Op[];
  collectives: Collective[];
  utilisation: Utilisation;
  findings: Finding[];
}

export interface Figures {
  step_ms: Maybe;
  range_ms: Range | null;
  peak_bytes: Maybe;
  hbm_bytes: Maybe;
  memory_fraction: Maybe;
  available_bytes: Maybe;
  fits: boolean | null;
}

export interface Candidate extends Figures {
  rank: Maybe;
  name: string;
  is_base: boolean;
  settings: { flags: Record<string, string>; environment: Record<string, string> };
  behind: Maybe;
  behind_range: Range | null;
  tied: boolean | null;
  same_as: string | null;
  exposed_ms: Maybe;
  notes: string[];
  error: string | null;
}

export interface Predicted extends Explained {
  warnings: string[];
  prediction: Figures & {
    workload: string;
    target: string;
    devices: number;
    range_covers: { share: number; published_steps: number; basis: string } | null;
    reach_ms: Record<string, Range>;
  };
  basis: Record<string, number>;
  candidates: Candidate[];
  what_if: { question: string; step_ms: number; range_ms: Range; saves_ms: number; saves_range_ms: Range }[];
  unanswered: { question: string; error: string }[];
  unpriced: {
    instruction: string;
    times: number;
    low_ms: number;
    high_ms: number;
    share: number;
    what: string;
  }[];
  pgle: (Figures & { used: boolean; reason: string; gains_ms: Maybe; saves_range_ms: Range | null }) | null;
}

export interface Network {
  notes: string[];
  basis: string;
  devices: number;
  step_ms: Maybe;
  window: string;
  window_ms: Maybe;
  links_source: string;
  collectives: {
    op: string;
    kind: string | null;
    link: string | null;
    program: Maybe;
    wire_bytes: Maybe;
    slack_ms: Maybe;
    required_gbps: Maybe;
    achieved_gbps: Maybe;
    capacity_gbps: Maybe;
    bound: string;
    why: string;
    code: string | null;
    exposed_ms: number;
    transfer_ms: Maybe;
    wait_ms: Maybe;
  }[];
  demand: { link: string | null; start_ms: number; end_ms: number; gbps: number; bytes: number }[];
  bursts: {
    link: string | null;
    start_ms: number;
    length_ms: number;
    bytes: number;
    mean_gbps: number;
    peak_gbps: number;
    exposed_ms: number;
    bound: string;
    collectives: string[];
  }[];
  saturated: {
    link: string | null;
    start_ms: number;
    length_ms: number;
    mean_gbps: number;
    limit_gbps: number;
    limit_is: string;
  }[];
  calls_pattern: string | null;
  calls: {
    host: number;
    peer: string | null;
    calls: number;
    median_ms: number;
    p95_ms: number;
    max_ms: number;
    slow_share: number;
    pattern: string;
  }[];
}

interface Side {
  name: string;
  runs: number;
  basis: string | null;
  devices: Maybe;
  steps: Maybe;
  median_step_ms: Maybe;
  steps_by: string | null;
}

export interface Change {
  a_ms: Maybe;
  b_ms: Maybe;
  difference_ms: Maybe;
}

export interface OpChange extends Change {
  a: string[];
  b: string[];
  matched_by: string;
  category: string | null;
  phase: string | null;
  scope: string | null;
  source: string | null;
  noise_ms: Maybe;
  clear: boolean;
}

export interface Compared {
  a: Side;
  b: Side;
  same_experiment: boolean;
  notes: string[];
  step: { a_ms: Maybe; b_ms: Maybe; change: Maybe; range: Range | null; verdict: string; how: string };
  differs: { about: string; what: string; a: string | null; b: string | null }[];
  work: {
    known: boolean;
    why_not: string | null;
    of: string | null;
    phases_unknown: string | null;
    moves_unknown: string | null;
  };
  parts: (Change & { part: string })[];
  phases: (Change & { phase: string })[];
  ops: OpChange[];
  collectives: {
    a: string[];
    b: string[];
    kind: string | null;
    bytes: Maybe;
    exposed_ms: [Maybe, Maybe];
    wait_ms: [Maybe, Maybe];
    busbw_gbps: [Maybe, Maybe];
    clear: boolean;
  }[];
  regrouped: { a: string[]; b: string[]; kind: string; bytes: number }[];
  moves: {
    a: string;
    b: string;
    kind: string;
    bytes: Maybe;
    start_shift_us: number;
    within_us: Range;
    source: string | null;
  }[];
}

export interface Estimate {
  gain: Maybe;
  range: Range | null;
  why_no_range: string | null;
  p: Maybe;
  rows: number;
  verdict: string;
  why: string | null;
  pairs: { row: number; step_ms: number; base_ms: number }[];
}

export interface TuneArm {
  name: string;
  origin: string;
  changes: { dimension: string; choice: string }[];
  predicted: {
    step_ms: number;
    range_ms: Range;
    gain: number;
    gain_range: Range;
    exposed_ms: Maybe;
    peak_bytes: Maybe;
    tied: boolean;
  } | null;
  status: string;
  why: string | null;
  trials: number;
  failures: number;
  median_ms: Maybe;
  raced: Estimate | null;
  confirmed: Estimate | null;
  prediction_off: Maybe;
  peak_bytes: Maybe;
}

export interface Tuned {
  study: string;
  sentence: string;
  state: string;
  basis: string;
  verdict: string | null;
  confirmed: boolean;
  gain: Maybe;
  range: Range | null;
  winner: string | null;
  settings: {
    xla_flags: [string, string][];
    environment: Record<string, string>;
    compiler_options: Record<string, string>;
  } | null;
  beside_settings: string[];
  arms: TuneArm[];
  left_out: { name: string; why: string }[];
  ablation: {
    arm: string;
    dimension: string;
    choice: string;
    loses: number;
    range: Range | null;
    basis: string;
  }[];
  noise: { sigma: Maybe; why_no_sigma: string | null; freedom: number; floor: number } | null;
  spent: {
    trials: number;
    seconds: number;
    node_seconds: number;
    trials_left: Maybe;
    seconds_left: Maybe;
  } | null;
  notes: string[];
}

function result<Kind>(page: Page, command: string): Kind | null {
  return (page.results[command] as Kind | undefined) ?? null;
}

export const predicted = (page: Page): Predicted | null => result<Predicted>(page, "predict");
export const network = (page: Page): Network | null => result<Network>(page, "network");
export const compared = (page: Page): Compared | null => result<Compared>(page, "compare");
export const tuned = (page: Page): Tuned | null => result<Tuned>(page, "tune");

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
