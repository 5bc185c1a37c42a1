/** Where tracks lie on the page: groups of a device each, which open and close. */

import { visible } from "../text";
import type { Track } from "../page";
import type { Side } from "./sides";

/** A place where a track is drawn. */
export interface Lane {
  side: Side;
  track: number;
  y: number;
  /** CSS pixels of one row, and what of it is drawn. */
  pitch: number;
  height: number;
}

/** A line of the gutter. */
export interface Row {
  key: string;
  kind: "side" | "group" | "track";
  title: string;
  /** More than fits in the title. */
  hint: string;
  y: number;
  height: number;
  /** Second line of the title. */
  under: string;
  /** The title stands at the top. */
  isTall: boolean;
  /** Of a group: whether its tracks are shown; null: it has no others. */
  open: boolean | null;
  lane: Lane | null;
}

export interface Layout {
  rows: Row[];
  lanes: Lane[];
  height: number;
}

const HEADER = 26;
const TRACK = 24;
const FOLD = 48;
const NESTED = 15;
const MOST_NESTED = 240;
const GAP = 3;
/** The lanes of more devices than this are closed, but for the first one's. */
export const FEW_DEVICES = 4;
/** More devices than this are folded into one at first. */
const MANY_DEVICES = 16;
/** Part of the screen that few tracks grow to, and how much taller they get at most. */
const FILLED = 0.8;
const TALLEST = 1.7;

interface Group {
  key: string;
  title: string;
  hint: string;
  /** Drawn beside the title. */
  own: number | null;
  tracks: number[];
  startsOpen: boolean;
  /** It folds all devices: where it is closed, only the first one is shown below it. */
  folds?: boolean;
  /** Key of the fold that hides it. */
  behind?: string | null;
}

/**
 * `toggled`: keys of the groups that are not as at first; `scale`: of the letters; `room`: height
 * of the screen, which few tracks fill better when they are taller.
 */
export function layout(sides: Side[], toggled: ReadonlySet<string>, scale: number, room: number): Layout {
  const least = laid(sides, toggled, scale);
  const spare = Math.min(Math.max((room * FILLED) / Math.max(least.height, 1), 1), TALLEST);
  return spare > 1.05 ? laid(sides, toggled, scale * spare) : least;
}

function laid(sides: Side[], toggled: ReadonlySet<string>, scale: number): Layout {
  const found: Layout = { rows: [], lanes: [], height: 0 };
  for (const side of sides) {
    if (sides.length > 1) {
      const title = `${side.letter} ${shortName(side.page.name)}`;
      put(
        found,
        { key: `side-${side.index}`, kind: "side", title, hint: side.page.name, open: null, under: "" },
        HEADER,
        null,
      );
    }
    for (const group of shownGroups(side, toggled)) putGroup(found, side, group, toggled, scale);
  }
  return found;
}

function isOpen(group: Group, toggled: ReadonlySet<string>): boolean {
  return group.startsOpen !== toggled.has(group.key);
}

/** Groups without those that a fold hides. */
function shownGroups(side: Side, toggled: ReadonlySet<string>): Group[] {
  const groups = groupsOf(side);
  const closed = new Set(groups.filter((it) => it.folds && !isOpen(it, toggled)).map(({ key }) => key));
  return groups.filter(({ behind }) => !behind || !closed.has(behind));
}

function putGroup(
  found: Layout,
  side: Side,
  group: Group,
  toggled: ReadonlySet<string>,
  scale: number,
): void {
  const isFold = side.page.tracks[group.own ?? -1]?.kind === "fold";
  const open = group.tracks.length > 0 || group.folds ? isOpen(group, toggled) : null;
  const row = {
    key: group.key,
    kind: "group" as const,
    title: group.title,
    hint: group.hint,
    open,
    under: isFold ? "mean, least to most" : "",
  };
  put(
    found,
    row,
    Math.round((isFold ? FOLD : HEADER) * scale),
    group.own === null ? null : { side, track: group.own },
  );
  if (!open) return;
  for (const number of group.tracks) {
    const track = side.page.tracks[number] as Track;
    const title = shortTitle(track.title);
    const row = {
      key: `${side.index}.${number}`,
      kind: "track" as const,
      title,
      hint: track.title,
      open: null,
      under: "",
    };
    put(found, row, heightOf(track, scale), { side, track: number });
  }
}

function heightOf(track: Track, scale: number): number {
  return Math.round(track.rows > 1 ? track.rows * pitchOf(track.rows, scale) + GAP : TRACK * scale);
}

function pitchOf(rows: number, scale: number): number {
  return Math.max(Math.floor(Math.min(NESTED, MOST_NESTED / rows) * scale), 2);
}

function put(
  found: Layout,
  row: Omit<Row, "y" | "height" | "lane" | "isTall">,
  height: number,
  of: { side: Side; track: number } | null,
): void {
  const y = found.height;
  let lane: Lane | null = null;
  if (of) {
    const rows = of.side.page.tracks[of.track]?.rows ?? 1;
    const pitch = rows > 1 ? Math.floor((height - GAP) / rows) : height - GAP;
    lane = {
      ...of,
      y: y + GAP / 2,
      pitch,
      height: rows > 1 ? Math.max(pitch - (pitch > 6 ? 1 : 0), 1) : pitch,
    };
    found.lanes.push(lane);
  }
  const isTall = lane !== null && lane.pitch < height - GAP;
  found.rows.push({ ...row, y, height, lane, isTall });
  found.height += height;
}

function groupsOf(side: Side): Group[] {
  const { tracks, devices } = side.page;
  const groups: Group[] = [];
  let fold: string | null = null;
  tracks.forEach((track, number) => {
    if (track.kind !== "fold") return;
    fold = `${side.index}.fold.${number}`;
    groups.push({
      key: fold,
      title: track.title,
      hint: `${track.title}: mean, least, median and most`,
      own: number,
      tracks: [],
      startsOpen: devices.length <= MANY_DEVICES,
      folds: true,
    });
  });
  const folded = devices.length > FEW_DEVICES;
  const hosts = shortHosts(devices.map(({ host }) => host));
  devices.forEach((device, number) => {
    const own = tracks.findIndex((track) => track.device === number && track.kind === "summary");
    const others = numbers(tracks, (track, at) => track.device === number && at !== own);
    if (own < 0 && others.length === 0) return;
    const host = hosts.get(device.host);
    const title = host ? `${device.name} · ${host}` : device.name;
    const whole = device.host ? `${device.name} · ${device.host}` : device.name;
    const hint = device.chip ? `${whole}, ${device.chip}` : whole;
    const key = `${side.index}.device.${number}`;
    groups.push({
      key,
      title,
      hint,
      own: own < 0 ? null : own,
      tracks: others,
      startsOpen: !folded || number === 0,
      behind: number === 0 ? null : fold,
    });
  });
  groups.push(...hostGroups(side));
  return groups;
}

/** What the hosts do, folded at first. */
function hostGroups(side: Side): Group[] {
  return [
    ["transfer", "Host transfers"] as const,
    ["host", "Host threads"] as const,
  ].flatMap(([kind, name]) => {
    const tracks = numbers(side.page.tracks, (track) => track.kind === kind);
    if (tracks.length === 0) return [];
    const title = `${name} (${tracks.length})`;
    return [{ key: `${side.index}.${kind}`, title, hint: title, own: null, tracks, startsOpen: false }];
  });
}

/** Whether a track shows what a host does, not a device. */
export function isOfHost(track: Track | undefined): boolean {
  return track?.kind === "host" || track?.kind === "transfer";
}

function numbers(tracks: Track[], wanted: (track: Track, number: number) => boolean): number[] {
  return tracks.map((_, number) => number).filter((number) => wanted(tracks[number] as Track, number));
}

const SHORT = 12;
const PROCESS = /^(.*) (?:\((process \d+)\)|(#\d+))$/;

/** Names of hosts without what all of them begin with, where they are long. */
export function shortHosts(names: string[]): Map<string, string> {
  const known = [...new Set(names.filter(Boolean))];
  const parts = known.map((name) => PROCESS.exec(name));
  const machines = new Set(parts.map((part) => part?.[1]));
  const isOne = machines.size === 1 && !machines.has(undefined);
  const shared = sharedStart(known);
  return new Map(
    known.map((name, at) => {
      if (isOne) return [name, parts[at]?.[2] ?? parts[at]?.[3] ?? name];
      return [name, name.length > SHORT && shared > 0 ? `…${name.slice(shared)}` : name];
    }),
  );
}

/** How many characters all names begin with, up to the end of a word. */
function sharedStart(names: string[]): number {
  const [first = "", ...others] = names;
  let same = 0;
  while (others.length > 0 && same < first.length && others.every((name) => name[same] === first[same])) same++;
  return Math.max(...["-", ".", "_", " "].map((mark) => first.lastIndexOf(mark, same - 1) + 1), 0);
}

/** The name of a file without its directories. */
export function shortName(name: string): string {
  return visible(name.replace(/^'(.*)'$/, "$1").replace(/^.*\/(?=[^/])/, ""));
}

/** The end of a title that is a path, whose beginning repeats the device; of a thread, its pool and some digits. */
function shortTitle(title: string): string {
  const text = visible(title);
  const thread = /([^/]+)\/-?\d*(\d{4})$/.exec(text);
  if (thread) return `${thread[1]?.replace(/^tf_(?:XLA)?/, "")} …${thread[2]}`;
  return text.length > 26 && text.includes("/")
    ? text.slice(text.lastIndexOf("/") + 1)
    : text.replace(/^(GPU|TPU) \d+\//, "");
}

export function laneOf(found: Layout, side: number, track: number): Lane | null {
  return found.lanes.find((lane) => lane.side.index === side && lane.track === track) ?? null;
}

/** Keys of the closed groups that hide a track. */
export function closedAround(side: Side, track: number, toggled: ReadonlySet<string>): string[] {
  const groups = groupsOf(side);
  const own = groups.find((group) => group.own === track || group.tracks.includes(track));
  const fold = groups.find(({ key }) => key === own?.behind);
  const around = [fold, own?.tracks.includes(track) ? own : undefined];
  return around.flatMap((group) => (group && !isOpen(group, toggled) ? [group.key] : []));
}
