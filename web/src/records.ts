/** Results as `--json` prints them, and the columns of their tables; `make docs` writes this. */

/** A column: the key of its values, its heading, what it means, and why a value may be unknown. */
export interface FieldColumn {
  key: string;
  title: string;
  form: "ms" | "us" | "difference" | "range" | "share" | "count" | "bytes" | "GB/s" | "word" | "name" | "label" | "place";
  digits: number;
  meaning: string;
  unknown: string;
}

export interface Explained {
  run: ReadRunJson | null;
  inputs: string[];
  notes: string[];
  truncated: boolean;
  step: number | null;
  selected_devices: number[] | null;
  hosts: number;
  devices: number;
  device_kind: string;
  host_clocks: HostClock[];
  programs: ProgramUse[];
  steps: StepsJson;
  breakdown: BreakdownJson;
  device_breakdowns: DeviceBreakdown[];
  phases: PhasesJson;
  ops: OpJson[];
  groups: OpGroupJson[];
  collectives: CollectiveJson[];
  utilisation: UtilizationJson;
  findings: FindingJson[];
  verdict: string | null;
}

export interface Explain extends Explained {
  basis: string;
  chosen_steps: ChosenStepsJson | null;
  timings: Record<string, number> | null;
}

export interface ReadRunJson {
  path: string;
  outcome: string;
  detail: string | null;
}

export interface HostClock {
  name: string;
  source: string;
  clock_offset_ms: number | null;
}

export interface ProgramUse {
  index: number;
  name: string;
  fingerprint: string | null;
  executions: number;
  device_ms: number;
  is_step: boolean;
  runs_per_step: number;
  step_ms: number;
  place: number | null;
  builds: number[];
}

export interface StepsJson {
  count: number;
  median_ms: number | null;
  mean_ms: number | null;
  min_ms: number | null;
  max_ms: number | null;
  p10_ms: number | null;
  p90_ms: number | null;
  execution_ms: number | null;
  window: string;
  window_ms: number | null;
  how: string;
  run_median_ms: number | null;
  run_steps: number | null;
}

export interface BreakdownJson {
  compute_ms: number | null;
  collective_exposed_ms: number | null;
  collective_hidden_ms: number | null;
  copy_exposed_ms: number | null;
  idle_ms: number | null;
}

export interface DeviceBreakdown extends BreakdownJson {
  device: number;
}

export interface PhasesJson {
  forward_ms: number | null;
  backward_ms: number | null;
  remat_ms: number | null;
  optimizer_ms: number | null;
  other_ms: number | null;
}

export interface OpJson {
  op: string;
  category: string;
  phase: string | null;
  scope: string | null;
  source: string | null;
  count: number;
  self_ms: number;
  share: number | null;
  program: number | null;
  flops: number | null;
  bytes_accessed: number | null;
}

export interface OpGroupJson {
  by: string;
  name: string | null;
  category: string;
  self_ms: number;
  share: number | null;
  ops: number;
  count: number;
  forward_ms: number;
  backward_ms: number;
  remat_ms: number;
  optimizer_ms: number;
  other_ms: number;
  longest: string;
}

export interface CollectiveJson {
  op: string;
  kind: string | null;
  bytes: number | null;
  group_size: number | null;
  count: number;
  total_ms: number;
  exposed_ms: number;
  hidden_share: number | null;
  wait_ms: number | null;
  algbw_gbps: number | null;
  busbw_gbps: number | null;
  median_ms: number;
  transfer_ms: number | null;
  mean_transfer_ms: number | null;
  slack_ms: number | null;
  message_bytes: number | null;
  phase: string | null;
  scope: string | null;
  source: string | null;
  program: number | null;
}

export interface UtilizationJson {
  chip: string | null;
  busy_share: number | null;
  flops_per_s: number | null;
  recomputed_flops_per_s: number | null;
  flops_known_share: number | null;
  mfu: number | null;
  hfu: number | null;
  bytes_per_s: number | null;
  hbm_share: number | null;
}

export interface FindingJson {
  code: string;
  title: string;
  detail: string;
  saves_ms: [number, number] | null;
  mean_step_ms: number | null;
  basis: string;
  evidence: Evidence[];
  remedy: string;
  settings: RemedySettings;
  doubt: string | null;
  share: number | null;
  is_small: boolean;
}

export interface ChosenStepsJson {
  first: number;
  last: number;
  count: number;
  recorded: number;
}

export interface Evidence {
  what: string;
  ms: number | null;
  spans: number[];
  gaps: Gap[];
  events: number[];
  transfers: number[];
}

export interface RemedySettings {
  xla: Record<string, string>;
  env: Record<string, string>;
}

export interface Gap {
  device: number;
  start_ps: number;
  dur_ps: number;
}

export interface Predict extends Explained {
  warnings: string[];
  prediction: PredictedStepJson;
  basis: Record<string, number>;
  programs_of_step: ProgramOfStepJson[];
  unpriced: UnpricedJson[];
  uncounted: UncountedJson[];
  candidates: CandidateJson[];
  what_if: WhatIfJson[];
  unanswered: UnansweredJson[];
  pgle: Pgle | null;
  against: AgainstJson | null;
}

export interface FiguresJson {
  step_ms: number | null;
  range_ms: [number, number] | null;
  peak_bytes: number | null;
  host_bytes: number | null;
  least_bytes: number | null;
  hbm_bytes: number | null;
  memory_fraction: number | null;
  available_bytes: number | null;
  fits: boolean | null;
}

export interface PredictedStepJson extends FiguresJson {
  workload: string;
  target: string;
  devices: number;
  basis: string;
  settings: RequestedSettings;
  versions: Record<string, string> | null;
  lower_bound: boolean;
  range_covers: RangeCovers | null;
  tokens_per_s: number | null;
  communication_ms: number;
  exposed_ms: number;
  critical_path_ms: number;
  busiest_lane_ms: number;
  reach_ms: Record<string, [number, number]>;
  jitter: JitterJson | null;
}

export interface ProgramOfStepJson {
  name: string;
  runs: number;
  each_ms: number;
  peak_bytes: number | null;
}

export interface UnpricedJson {
  instruction: string;
  times: number;
  low_ms: number;
  high_ms: number;
  share: number;
  what: string;
}

export interface UncountedJson {
  instruction: string;
  each_ms: number;
  source: string | null;
}

export interface CandidateJson extends FiguresJson {
  rank: number | null;
  name: string;
  is_base: boolean;
  settings: RequestedSettings;
  behind: number | null;
  behind_range: [number, number] | null;
  tied: boolean | null;
  same_as: string | null;
  exposed_ms: number | null;
  notes: string[];
  error: string | null;
}

export interface WhatIfJson {
  question: string;
  step_ms: number;
  range_ms: [number, number];
  saves_ms: number;
  saves_range_ms: [number, number];
}

export interface UnansweredJson {
  question: string;
  error: string;
}

export interface Pgle extends FiguresJson {
  used: boolean;
  reason: string;
  changed: boolean;
  costs: number;
  gains_ms: number | null;
  wanted_bytes: number | null;
  limit_bytes: number | null;
  saves_ms: number | null;
  saves_range_ms: [number, number] | null;
  path: string | null;
}

export interface AgainstJson {
  path: string;
  basis: string;
  predicted_ms: number;
  measured_ms: number | null;
  program_ms: number | null;
  programs: number;
  ratio: number | null;
  matched_share: number;
  how: string;
  warnings: string[];
  categories: Record<string, CategoryTimes>;
  ops: OpTimes[];
}

export interface RequestedSettings {
  flags: Record<string, string>;
  environment: Record<string, string>;
}

export interface RangeCovers {
  share: number;
  published_steps: number;
  basis: string;
}

export interface JitterJson {
  median_ms: number;
  p10_ms: number;
  p90_ms: number;
  steps: number;
}

export interface CategoryTimes {
  predicted_ms: number;
  measured_ms: number;
}

export interface OpTimes {
  program: string;
  op: string;
  measured_op: string | null;
  category: string;
  predicted_ms: number | null;
  measured_ms: number | null;
  difference_ms: number;
  source: string | null;
}

export interface NetworkJson {
  inputs: string[];
  notes: string[];
  basis: string;
  step: number | null;
  chosen_steps: ChosenStepsJson | null;
  selected_devices: number[] | null;
  hosts: number | null;
  devices: number;
  device_kind: string;
  step_ms: number | null;
  window: string;
  window_ms: number | null;
  links_source: string;
  slack: SlackJson[];
  collectives: NetworkCollectiveJson[];
  demand: DemandJson[];
  bursts: BurstJson[];
  saturated: SaturatedJson[];
  lower_bounds: string[];
  calls_pattern: string | null;
  calls_expected_at: string | null;
  calls: CallsJson[];
  calls_by_step: StepCallsJson[];
}

export interface SlackJson {
  program: number | null;
  op: string;
  kind: string | null;
  executions: number;
  slack_ms: number | null;
  slack_p5_ms: number | null;
  slack_p95_ms: number | null;
  no_slack_share: number | null;
  worst_device: number | null;
  unknown: string | null;
}

export interface NetworkCollectiveJson {
  program: number | null;
  op: string;
  kind: string | null;
  link: string | null;
  wire_bytes: number | null;
  senders: number;
  slack_ms: number | null;
  slack_p5_ms: number | null;
  slack_p95_ms: number | null;
  no_slack_share: number | null;
  movable_ms: number | null;
  required_gbps: number | null;
  achieved_gbps: number | null;
  capacity_gbps: number | null;
  priced_link: string | null;
  priced_bound: string | null;
  priced_how: string | null;
  bound: string;
  why: string;
  code: string | null;
  causes: ExposureCauseJson[];
  group_size: number | null;
  count: number;
  transfer_ms: number | null;
  mean_transfer_ms: number | null;
  wait_ms: number | null;
  exposed_ms: number;
}

export interface DemandJson {
  link: string | null;
  start_ms: number;
  end_ms: number;
  gbps: number;
  bytes: number;
}

export interface BurstJson {
  link: string | null;
  start_ms: number;
  length_ms: number;
  bytes: number;
  mean_gbps: number;
  peak_gbps: number;
  exposed_ms: number;
  waiting_ms: number;
  bound: string;
  collectives: string[];
}

export interface SaturatedJson {
  link: string | null;
  start_ms: number;
  length_ms: number;
  mean_gbps: number;
  limit_gbps: number;
  limit_is: string;
}

export interface CallsJson {
  host: number;
  peer: string | null;
  calls: number;
  median_ms: number;
  p95_ms: number;
  max_ms: number;
  host_ms: number;
  slow_share: number;
  pattern: string;
}

export interface StepCallsJson {
  step: number;
  calls: number;
  median_ms: number;
  p95_ms: number;
  max_ms: number;
  host_ms: number;
  slow_share: number;
}

export interface ExposureCauseJson {
  bound: string;
  ms: number;
  code: string | null;
  why: string;
}

export interface Compare {
  a: SideJson;
  b: SideJson;
  same_experiment: boolean;
  notes: string[];
  step: StepChangeJson;
  losses: LossesJson;
  differs: SideDifference[];
  same_modules: number | null;
  work: StepDifferenceJson;
  parts: PartJson[];
  phases: PhaseJson[];
  ops: OpChangeJson[];
  collectives: CollectiveChangeJson[];
  regrouped: RegroupedCollectives[];
  moves: CompareMoveJson[];
}

export interface SideJson {
  name: string;
  runs: number;
  timed: number;
  faults: FaultJson[];
  run: string | null;
  basis: string | null;
  devices: number | null;
  steps: number | null;
  median_step_ms: number | null;
  steps_by: string | null;
}

export interface StepChangeJson {
  a_ms: number | null;
  b_ms: number | null;
  change: number | null;
  range: [number, number] | null;
  range_of_steps: [number, number] | null;
  verdict: string;
  how: string;
  assumed: boolean | null;
  surely_above: number | null;
  order: string | null;
}

export interface LossesJson {
  share: number | null;
  step: number | null;
  steps: number | null;
  own: number | null;
  differ: boolean | null;
  why_not: string | null;
}

export interface SideDifference {
  about: string;
  what: string;
  a: string | null;
  b: string | null;
}

export interface StepDifferenceJson {
  known: boolean;
  why_not: string | null;
  of: string | null;
  step: ChangeJson | null;
  busy: ChangeJson | null;
  idle: ChangeJson | null;
  phases_unknown: string | null;
  moves_unknown: string | null;
}

export interface ChangeJson {
  a_ms: number | null;
  b_ms: number | null;
  difference_ms: number | null;
}

export interface PartJson extends ChangeJson {
  part: string;
}

export interface PhaseJson extends ChangeJson {
  phase: string;
}

export interface OpChangeJson extends ChangeJson {
  a: string[];
  b: string[];
  matched_by: string;
  category: string | null;
  phase: string | null;
  scope: string | null;
  source: string | null;
  noise_ms: number | null;
  clear: boolean;
  a_self_ms: number | null;
  b_self_ms: number | null;
}

export interface CollectiveChangeJson {
  a: string[];
  b: string[];
  matched_by: string;
  kind: string | null;
  bytes: number | null;
  group_size: number | null;
  exposed_ms: [number | null, number | null];
  wait_ms: [number | null, number | null];
  busbw_gbps: [number | null, number | null];
  clear: boolean;
}

export interface RegroupedCollectives {
  a: string[];
  b: string[];
  kind: string;
  bytes: number;
}

export interface CompareMoveJson {
  a: string;
  b: string;
  kind: string;
  bytes: number | null;
  source: string | null;
  start_shift_us: number;
  within_us: [number, number];
  sync: [boolean, boolean];
}

export interface FaultJson {
  name: string;
  why: string;
}

export interface Tune {
  study: string;
  sentence: string;
  state: string;
  basis: string;
  verdict: string | null;
  confirmed: boolean;
  gain: number | null;
  range: [number, number] | null;
  winner: string | null;
  settings: InFull | null;
  beside_settings: string[];
  arms: ArmResult[];
  left_out: TuneLeftOutJson[];
  ablation: AblatedJson[];
  noise: NoiseJson | null;
  spent: Spent | null;
  notes: string[];
}

export interface InFull {
  xla_flags: ([string, string])[];
  environment: Record<string, string>;
  compiler_options: Record<string, string>;
}

export interface PlannedArm {
  name: string;
  origin: string;
  changes: ArmChangeJson[];
  settings: InFull;
  per: string | null;
  predicted: ArmPredicted | null;
}

export interface ArmResult extends PlannedArm {
  status: string;
  why: string | null;
  trials: number;
  failures: number;
  median_ms: number | null;
  raced: Estimated | null;
  confirmed: Estimated | null;
  prediction_off: number | null;
  program: string | null;
  peak_bytes: number | null;
  trial_s: number | null;
  start_s: number | null;
  compile_s: number | null;
}

export interface TuneLeftOutJson {
  name: string;
  why: string;
}

export interface AblatedJson {
  arm: string;
  dimension: string;
  choice: string;
  loses: number;
  range: [number, number] | null;
  basis: string;
}

export interface NoiseJson {
  sigma: number | null;
  why_no_sigma: string | null;
  freedom: number;
  floor: number;
}

export interface Spent {
  trials: number;
  seconds: number;
  node_seconds: number;
  trials_left: number | null;
  seconds_left: number | null;
  why_left: string | null;
}

export interface ArmChangeJson {
  dimension: string;
  choice: string;
  acts: string;
  per: string | null;
  profile: boolean;
  words: string[];
  settings: InFull;
}

export interface ArmPredicted {
  step_ms: number;
  range_ms: [number, number];
  gain: number;
  gain_range: [number, number];
  program: string;
  exposed_ms: number | null;
  peak_bytes: number | null;
  limit_bytes: number | null;
  fits: boolean | null;
  tied: boolean;
}

export interface Estimated {
  gain: number | null;
  range: [number, number] | null;
  why_no_range: string | null;
  p: number | null;
  rows: number;
  verdict: string;
  decided: boolean;
  why: string | null;
  step_ms: number | null;
  base_ms: number | null;
  pairs: RowPair[];
}

export interface RowPair {
  row: number;
  step_ms: number;
  base_ms: number;
}

export interface FleetJson {
  inputs: string[];
  notes: string[];
  basis: string;
  profiles: number;
  read_bytes: number;
  retried: number;
  left_out: UnreadProfileJson[];
  devices: number;
  steps: number;
  step_numbers: number[];
  steps_matched_by: string;
  window: string;
  window_ms: number;
  step_ms: number | null;
  min_ms: number;
  max_ms: number;
  compute_ms: number;
  hidden_ms: number;
  exposed_ms: number;
  copy_ms: number;
  idle_ms: number;
  late: LateJson[];
  collectives: FleetCollectiveJson[];
  builds: BuildJson[];
  builds_differ: boolean;
  hosts: FleetHostJson[];
}

export interface UnreadProfileJson {
  name: string;
  what: string;
  why: string | null;
}

export interface LateJson {
  kind: string;
  name: string;
  hosts: string[];
  late_steps: number;
  steps: number;
  chance: number;
  waits_less_ms: number;
  interval_ms: [number, number] | null;
  more_compute_ms: number;
  more_idle_ms: number;
  is_slow: boolean;
  gain_ms: number;
  gain_interval_ms: [number, number] | null;
}

export interface FleetCollectiveJson {
  op: string;
  kind: string | null;
  group_size: number | null;
  bytes: number | null;
  count: number;
  ms: number;
  least_ms: number | null;
  waits_ms: number | null;
  busbw_gbps: number | null;
  last: string | null;
  last_steps: number;
  steps: number;
  slow: SlowGroup[];
}

export interface BuildJson {
  program: string | null;
  build: string | null;
  hosts: string[];
}

export interface FleetHostJson {
  name: string;
  machine: string;
  source: string;
  rack: string | null;
  pod: string | null;
  chip: string | null;
  program: string | null;
  build: string | null;
  devices: number;
  steps: number;
  truncated: boolean;
  clock_ahead_ms: number | null;
  clock_spread_ms: number | null;
  step_ms: number | null;
  compute_ms: number | null;
  exposed_ms: number | null;
  idle_ms: number | null;
  each_ms: (number | null)[];
}

export interface SlowGroup {
  devices: string[];
  hosts: string[];
  more_ms: number;
  steps: number;
  of_steps: number;
  chance: number;
}

export const OpJsonColumns: FieldColumn[] = [
  {"key": "op", "title": "op", "form": "name", "digits": 0, "meaning": "the HLO instruction; for a kernel without one, its own name", "unknown": ""},
  {"key": "category", "title": "category", "form": "word", "digits": 0, "meaning": "`matmul`, `attention`, `collective`, `copy`, ...", "unknown": ""},
  {"key": "self_ms", "title": "self ms", "form": "ms", "digits": 0, "meaning": "without the ops nested in it", "unknown": ""},
  {"key": "share", "title": "share", "form": "share", "digits": 1, "meaning": "of the step; overlapping ops may add up to more than 1", "unknown": "the step's time is not known"},
  {"key": "phase", "title": "phase", "form": "word", "digits": 0, "meaning": "as in `phases`", "unknown": ""},
  {"key": "count", "title": "count", "form": "count", "digits": 0, "meaning": "executions per step and device", "unknown": ""},
  {"key": "source", "title": "source", "form": "place", "digits": 0, "meaning": "file:line", "unknown": ""},
  {"key": "scope", "title": "scope", "form": "place", "digits": 0, "meaning": "the path of names in the user's code", "unknown": ""},
];

export const OpGroupJsonColumns: FieldColumn[] = [
  {"key": "category", "title": "category", "form": "word", "digits": 0, "meaning": "the category with most of its time", "unknown": ""},
  {"key": "self_ms", "title": "self ms", "form": "ms", "digits": 0, "meaning": "time of its ops, without the ops nested in them", "unknown": ""},
  {"key": "share", "title": "share", "form": "share", "digits": 1, "meaning": "of the step; overlapping ops may add up to more than 1", "unknown": "the step's time is not known"},
  {"key": "ops", "title": "ops", "form": "count", "digits": 0, "meaning": "number of ops", "unknown": ""},
  {"key": "count", "title": "count", "form": "count", "digits": 0, "meaning": "executions per step and device", "unknown": ""},
  {"key": "longest", "title": "longest op", "form": "name", "digits": 0, "meaning": "the op with most of the time", "unknown": ""},
];

export const CollectiveJsonColumns: FieldColumn[] = [
  {"key": "op", "title": "op", "form": "name", "digits": 0, "meaning": "the HLO instruction; for an asynchronous one, its start", "unknown": ""},
  {"key": "kind", "title": "kind", "form": "word", "digits": 0, "meaning": "`all-gather`, `all-reduce`, `reduce-scatter`, ...", "unknown": "its name tells no kind"},
  {"key": "bytes", "title": "size", "form": "bytes", "digits": 0, "meaning": "the result of all ranks (all-gather) or the input (reduce-scatter)", "unknown": "the recording has no sizes"},
  {"key": "group_size", "title": "ranks", "form": "count", "digits": 0, "meaning": "participating ranks", "unknown": "the recording has no groups"},
  {"key": "count", "title": "count", "form": "count", "digits": 0, "meaning": "executions per step and device", "unknown": ""},
  {"key": "total_ms", "title": "time ms", "form": "ms", "digits": 0, "meaning": "per step, start to end, including waiting", "unknown": ""},
  {"key": "wait_ms", "title": "wait", "form": "ms", "digits": 0, "meaning": "per step, for the last rank; null with one device", "unknown": "needs all devices of the group"},
  {"key": "exposed_ms", "title": "exposed", "form": "ms", "digits": 0, "meaning": "the part of `total_ms` during which the device computes nothing", "unknown": ""},
  {"key": "hidden_share", "title": "hidden", "form": "share", "digits": 0, "meaning": "the hidden share of `total_ms`", "unknown": "it takes no time"},
  {"key": "slack_ms", "title": "slack", "form": "ms", "digits": 0, "meaning": "the median of single executions, from the start until the device has no other work", "unknown": "needs the op's start and its done"},
  {"key": "algbw_gbps", "title": "alg GB/s", "form": "GB/s", "digits": 0, "meaning": "10^9 bytes per second: `bytes` / mean time on the last rank", "unknown": "needs bytes and ranks"},
  {"key": "busbw_gbps", "title": "bus GB/s", "form": "GB/s", "digits": 0, "meaning": "the same times the factor of the kind, comparable with a link", "unknown": "needs bytes and ranks"},
  {"key": "source", "title": "source", "form": "place", "digits": 0, "meaning": "as in `ops`", "unknown": ""},
  {"key": "scope", "title": "scope", "form": "place", "digits": 0, "meaning": "as in `ops`", "unknown": ""},
];

export const ProgramOfStepJsonColumns: FieldColumn[] = [
  {"key": "name", "title": "program", "form": "word", "digits": 0, "meaning": "the module's name", "unknown": ""},
  {"key": "runs", "title": "runs", "form": "count", "digits": 0, "meaning": "runs in one step", "unknown": ""},
  {"key": "each_ms", "title": "each ms", "form": "ms", "digits": 0, "meaning": "time of one run", "unknown": ""},
  {"key": "peak_bytes", "title": "peak", "form": "bytes", "digits": 0, "meaning": "the peak of one run, with what stays alive beside it", "unknown": "the compiler did not say"},
];

export const UnpricedJsonColumns: FieldColumn[] = [
  {"key": "instruction", "title": "instruction", "form": "name", "digits": 0, "meaning": "its name", "unknown": ""},
  {"key": "times", "title": "times", "form": "count", "digits": 0, "meaning": "executions in a step", "unknown": ""},
  {"key": "low_ms", "title": "at least ms", "form": "ms", "digits": 0, "meaning": "the least that it may take in a step", "unknown": ""},
  {"key": "high_ms", "title": "at most ms", "form": "ms", "digits": 0, "meaning": "the most that it may take in a step", "unknown": ""},
  {"key": "share", "title": "of the step", "form": "share", "digits": 1, "meaning": "of the step, at most", "unknown": ""},
  {"key": "what", "title": "what it is", "form": "word", "digits": 0, "meaning": "what it does, and why it has no price", "unknown": ""},
];

export const WhatIfJsonColumns: FieldColumn[] = [
  {"key": "question", "title": "if", "form": "name", "digits": 0, "meaning": "as given", "unknown": ""},
  {"key": "step_ms", "title": "step ms", "form": "ms", "digits": 0, "meaning": "the step on such hardware", "unknown": ""},
  {"key": "range_ms", "title": "range", "form": "range", "digits": 0, "meaning": "its range", "unknown": ""},
  {"key": "saves_ms", "title": "saves ms", "form": "ms", "digits": 0, "meaning": "by how much it is shorter", "unknown": ""},
  {"key": "saves_range_ms", "title": "range of the saving", "form": "range", "digits": 0, "meaning": "the range of that; errors that both share cancel", "unknown": ""},
];

export const OpTimesColumns: FieldColumn[] = [
  {"key": "program", "title": "program", "form": "name", "digits": 0, "meaning": "the program", "unknown": ""},
  {"key": "op", "title": "op", "form": "name", "digits": 0, "meaning": "the instruction", "unknown": ""},
  {"key": "category", "title": "category", "form": "word", "digits": 0, "meaning": "as in [explain](explain-json.md)", "unknown": ""},
  {"key": "predicted_ms", "title": "predicted ms", "form": "ms", "digits": 0, "meaning": "per step; null: only the measurement has it", "unknown": ""},
  {"key": "measured_ms", "title": "measured ms", "form": "ms", "digits": 0, "meaning": "per step; null: only the prediction has it", "unknown": ""},
  {"key": "difference_ms", "title": "off by ms", "form": "ms", "digits": 0, "meaning": "predicted - measured", "unknown": ""},
  {"key": "measured_op", "title": "measured as", "form": "name", "digits": 0, "meaning": "its name in the measurement", "unknown": ""},
  {"key": "source", "title": "source", "form": "place", "digits": 0, "meaning": "file:line", "unknown": ""},
];

export const SlackJsonColumns: FieldColumn[] = [
  {"key": "op", "title": "op", "form": "name", "digits": 0, "meaning": "the instruction that starts it", "unknown": ""},
  {"key": "kind", "title": "kind", "form": "word", "digits": 0, "meaning": "the kind of collective; `host copy`, `host send`, `host recv` for traffic with the host", "unknown": ""},
  {"key": "slack_ms", "title": "median ms", "form": "ms", "digits": 0, "meaning": "median over executions; null: see `unknown`", "unknown": ""},
  {"key": "slack_p5_ms", "title": "p5", "form": "ms", "digits": 0, "meaning": "5% of them have less", "unknown": ""},
  {"key": "slack_p95_ms", "title": "p95", "form": "ms", "digits": 0, "meaning": "5% of them have more", "unknown": ""},
  {"key": "no_slack_share", "title": "no slack", "form": "share", "digits": 0, "meaning": "share of executions with less than a microsecond of slack", "unknown": ""},
  {"key": "worst_device", "title": "worst device", "form": "count", "digits": 0, "meaning": "the device with the smallest median; null: all devices are equal", "unknown": ""},
];

export const NetworkCollectiveJsonColumns: FieldColumn[] = [
  {"key": "op", "title": "op", "form": "name", "digits": 0, "meaning": "the instruction that starts it", "unknown": ""},
  {"key": "link", "title": "link", "form": "word", "digits": 0, "meaning": "`domain` (NVLink, Infinity Fabric, PCIe), `network` (NICs), `ici`, `dcn`", "unknown": ""},
  {"key": "wire_bytes", "title": "sends", "form": "bytes", "digits": 0, "meaning": "bytes that a device that sends puts on that link, per execution", "unknown": ""},
  {"key": "slack_ms", "title": "slack ms", "form": "ms", "digits": 0, "meaning": "as above", "unknown": "needs the op's start and its done"},
  {"key": "mean_transfer_ms", "title": "transfer ms", "form": "ms", "digits": 0, "meaning": "the mean of the same, used for the rates", "unknown": "the time of the transfer without waits is not known"},
  {"key": "required_gbps", "title": "required", "form": "GB/s", "digits": 0, "meaning": "`wire_bytes` / slack; null: unknown, or no rate suffices", "unknown": "needs its bytes, and some slack"},
  {"key": "achieved_gbps", "title": "achieved", "form": "GB/s", "digits": 0, "meaning": "`wire_bytes` / `mean_transfer_ms`; over `dcn`, / the time in which the runtime's records show its messages under way; in a prediction, the rate of its price", "unknown": "its bytes or ranks are not recorded"},
  {"key": "capacity_gbps", "title": "capacity", "form": "GB/s", "digits": 0, "meaning": "the capacity of the link, from its data sheet or the target", "unknown": "the link's rate is not known: name the machine with --target"},
  {"key": "exposed_ms", "title": "exposed ms", "form": "ms", "digits": 0, "meaning": "per step", "unknown": ""},
  {"key": "bound", "title": "bound", "form": "word", "digits": 0, "meaning": "`hidden`, `gaps beside it`, `waiting for a late rank`, `many operands`, `exposed by schedule`, `too little beside it`, `synchronous`, `could be merged`, `at an end of the step`, `latency`, `bandwidth`, `unknown`", "unknown": ""},
];

export const BurstJsonColumns: FieldColumn[] = [
  {"key": "start_ms", "title": "start ms", "form": "ms", "digits": 0, "meaning": "from the step's start", "unknown": ""},
  {"key": "length_ms", "title": "length", "form": "ms", "digits": 0, "meaning": "until nothing is sent for a thousandth of the step", "unknown": ""},
  {"key": "link", "title": "link", "form": "word", "digits": 0, "meaning": "as above", "unknown": ""},
  {"key": "bytes", "title": "bytes", "form": "bytes", "digits": 0, "meaning": "bytes of one device", "unknown": ""},
  {"key": "mean_gbps", "title": "mean GB/s", "form": "GB/s", "digits": 0, "meaning": "the mean rate", "unknown": ""},
  {"key": "peak_gbps", "title": "peak", "form": "GB/s", "digits": 0, "meaning": "the highest rate", "unknown": ""},
  {"key": "exposed_ms", "title": "exposed", "form": "ms", "digits": 0, "meaning": "how much of its length is exposed, mean over devices", "unknown": ""},
  {"key": "waiting_ms", "title": "waiting", "form": "ms", "digits": 0, "meaning": "further exposed time of its collectives, in which they send nothing: until the last device arrives (over `dcn`, outside of the recorded messages)", "unknown": ""},
  {"key": "bound", "title": "bound", "form": "word", "digits": 0, "meaning": "the bound of most of the exposed time", "unknown": ""},
  {"key": "collectives", "title": "collectives", "form": "name", "digits": 0, "meaning": "the largest collectives, by bytes", "unknown": ""},
];

export const CallsJsonColumns: FieldColumn[] = [
  {"key": "host", "title": "host", "form": "name", "digits": 0, "meaning": "index among the hosts", "unknown": ""},
  {"key": "peer", "title": "peer", "form": "name", "digits": 0, "meaning": "the other end", "unknown": ""},
  {"key": "calls", "title": "calls", "form": "count", "digits": 0, "meaning": "number of calls", "unknown": ""},
  {"key": "median_ms", "title": "median ms", "form": "ms", "digits": 0, "meaning": "median latency", "unknown": ""},
  {"key": "p95_ms", "title": "p95", "form": "ms", "digits": 0, "meaning": "5% of them take longer", "unknown": ""},
  {"key": "max_ms", "title": "most", "form": "ms", "digits": 0, "meaning": "the slowest", "unknown": ""},
  {"key": "host_ms", "title": "host work", "form": "ms", "digits": 0, "meaning": "the part of the latency in which the receiving host registered or copied buffers, median", "unknown": ""},
  {"key": "slow_share", "title": "slow", "form": "share", "digits": 0, "meaning": "share of calls that take three times the expected time", "unknown": ""},
  {"key": "pattern", "title": "pattern", "form": "word", "digits": 0, "meaning": "`normal`, `sporadic`, `sustained`", "unknown": ""},
];

export const ChangeJsonColumns: FieldColumn[] = [
  {"key": "a_ms", "title": "A ms", "form": "ms", "digits": 0, "meaning": "time in which A's step waits for it", "unknown": ""},
  {"key": "b_ms", "title": "B ms", "form": "ms", "digits": 0, "meaning": "time in which B's step waits for it", "unknown": ""},
  {"key": "difference_ms", "title": "B-A", "form": "difference", "digits": 0, "meaning": "B - A", "unknown": ""},
];

export const PartJsonColumns: FieldColumn[] = [
  {"key": "part", "title": "part", "form": "word", "digits": 0, "meaning": "`compute`, `exposed collective`, `exposed copy` or `idle`", "unknown": ""},
  {"key": "a_ms", "title": "A ms", "form": "ms", "digits": 0, "meaning": "time in which A's step waits for it", "unknown": ""},
  {"key": "b_ms", "title": "B ms", "form": "ms", "digits": 0, "meaning": "time in which B's step waits for it", "unknown": ""},
  {"key": "difference_ms", "title": "B-A", "form": "difference", "digits": 0, "meaning": "B - A", "unknown": ""},
];

export const PhaseJsonColumns: FieldColumn[] = [
  {"key": "phase", "title": "phase", "form": "word", "digits": 0, "meaning": "as in [explain](explain-json.md)", "unknown": ""},
  {"key": "a_ms", "title": "A ms", "form": "ms", "digits": 0, "meaning": "time in which A's step waits for it", "unknown": ""},
  {"key": "b_ms", "title": "B ms", "form": "ms", "digits": 0, "meaning": "time in which B's step waits for it", "unknown": ""},
  {"key": "difference_ms", "title": "B-A", "form": "difference", "digits": 0, "meaning": "B - A", "unknown": ""},
];

export const OpChangeJsonColumns: FieldColumn[] = [
  {"key": "a_ms", "title": "A ms", "form": "ms", "digits": 0, "meaning": "time in which A's step waits for it", "unknown": ""},
  {"key": "b_ms", "title": "B ms", "form": "ms", "digits": 0, "meaning": "time in which B's step waits for it", "unknown": ""},
  {"key": "difference_ms", "title": "B-A", "form": "difference", "digits": 0, "meaning": "B - A", "unknown": ""},
];

export const CompareMoveJsonColumns: FieldColumn[] = [
  {"key": "kind", "title": "kind", "form": "word", "digits": 0, "meaning": "the kind of collective", "unknown": ""},
  {"key": "bytes", "title": "size", "form": "bytes", "digits": 0, "meaning": "of one execution", "unknown": "not recorded"},
  {"key": "source", "title": "source", "form": "place", "digits": 0, "meaning": "file:line", "unknown": ""},
];

export const ArmResultColumns: FieldColumn[] = [
  {"key": "median_ms", "title": "median ms", "form": "ms", "digits": 0, "meaning": "the median step over all its runs; the gain is computed from `pairs`", "unknown": "it did not run"},
  {"key": "trials", "title": "trials", "form": "count", "digits": 0, "meaning": "runs started", "unknown": ""},
  {"key": "peak_bytes", "title": "peak memory", "form": "bytes", "digits": 0, "meaning": "measured peak of memory", "unknown": "not recorded"},
];

export const ArmPredictedColumns: FieldColumn[] = [
  {"key": "step_ms", "title": "step ms", "form": "ms", "digits": 0, "meaning": "the predicted step", "unknown": ""},
  {"key": "range_ms", "title": "range of the step", "form": "range", "digits": 0, "meaning": "its range", "unknown": ""},
  {"key": "exposed_ms", "title": "exposed ms", "form": "ms", "digits": 0, "meaning": "communication that the step waits for", "unknown": "it was not predicted"},
  {"key": "peak_bytes", "title": "peak memory", "form": "bytes", "digits": 0, "meaning": "the compiler's plan", "unknown": "the compiler did not say"},
];

export const FleetCollectiveJsonColumns: FieldColumn[] = [
  {"key": "op", "title": "collective", "form": "label", "digits": 0, "meaning": "the instruction", "unknown": ""},
  {"key": "group_size", "title": "members", "form": "count", "digits": 0, "meaning": "devices of a group", "unknown": ""},
  {"key": "ms", "title": "ms", "form": "ms", "digits": 0, "meaning": "how long a device stays in it, mean over devices", "unknown": ""},
  {"key": "least_ms", "title": "without waiting", "form": "ms", "digits": 0, "meaning": "how long the member stays that arrives last, median over groups; null: groups are unknown, since hosts are missing or run different programs", "unknown": ""},
  {"key": "waits_ms", "title": "waiting", "form": "ms", "digits": 0, "meaning": "the rest of `ms`; null as `least_ms`", "unknown": ""},
  {"key": "busbw_gbps", "title": "bus GB/s", "form": "GB/s", "digits": 0, "meaning": "what a device sends per second of `least_ms` (`bytes` x `count` x 2(n-1)/n for all-reduce, (n-1)/n for gather, scatter and all-to-all), in 1e9 bytes, as in `explain` and `network`", "unknown": ""},
];
