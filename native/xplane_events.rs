//! The events of one line of an XPlane, decoded into columns or arranged by what they are.
//!
//! Python calls these functions through ctypes, without holding its lock, so lines are decoded in
//! parallel. The input comes from a file that anybody may have written: every read is checked
//! against the end of its message, and what this code does not expect is left to the Python
//! decoder, which gives the same columns, more slowly, or the error.
//!
//! XEvent {1 metadata_id, 2 offset_ps | 5 num_occurrences, 3 duration_ps, 4 stats}
//! XStat  {1 metadata_id, 2 double, 3 uint64, 4 int64, 5 str, 6 bytes, 7 ref}

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// Changes with the layout of the structures that Python passes; it refuses another one.
const LAYOUT: u32 = 4;

const EVENT: u8 = 0x22;
const METADATA: u8 = 0x08;
const DOUBLE_VALUE: u8 = 0x11;
const UINT_VALUE: u8 = 0x18;
const INT_VALUE: u8 = 0x20;
const TEXT_VALUE: u8 = 0x2A;
const BYTES_VALUE: u8 = 0x32;
const REF_VALUE: u8 = 0x38;

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const LENGTH: u8 = 2;
const FIXED32: u8 = 5;

const NUMBER: u8 = 0;
const NAMED: u8 = 1;
/// The value is the position of the text, which Python numbers.
const SPELLED: u8 = 2;

const KEPT: i32 = 0;
const LEFT_OUT: i32 = 1;
const END: i32 = 2;

/// An op's mark of its end that comes no later than this after its event adds nothing.
const AT_ONCE_PS: i64 = 5_000_000;

/// Columns of stats at most: more are decoded in Python.
const MOST_COLUMNS: usize = 32;

#[repr(C)]
pub struct Input {
    data: *const u8,
    size: usize,
    /// The column of each stat by its metadata id; -1: not wanted.
    slots: *const i8,
    slot_count: usize,
    /// What each metadata id is: KEPT, LEFT_OUT, or END + the id of the op whose end it marks.
    kinds: *const i32,
    kind_count: usize,
    /// The rows that there is room for.
    capacity: usize,
    columns: usize,
}

#[repr(C)]
pub struct ColumnOutput {
    metadata: *mut i64,
    offset: *mut i64,
    duration: *mut i64,
    /// `columns` blocks of `capacity` values, zero at first, as are the two below.
    value: *mut i64,
    known: *mut u8,
    kind: *mut u8,
}

#[repr(C)]
pub struct Outcome {
    consumed: usize,
    rows: usize,
    left_out: usize,
    /// Records of many events at once: they have no time.
    summaries: usize,
    /// How many values are positions of texts, at most.
    spelled: usize,
}

/// The stats of one event that have a column.
struct Stats {
    value: [i64; MOST_COLUMNS],
    kind: [u8; MOST_COLUMNS],
    /// A bit for each column.
    known: u32,
    spelled: usize,
}

impl Stats {
    const fn new() -> Self {
        Self { value: [0; MOST_COLUMNS], kind: [NUMBER; MOST_COLUMNS], known: 0, spelled: 0 }
    }

    fn put(&mut self, slot: usize, value: i64, kind: u8) {
        self.value[slot] = value;
        self.kind[slot] = kind;
        self.known |= 1 << slot;
        self.spelled += usize::from(kind == SPELLED);
    }

    fn has(&self, slot: i32) -> bool {
        (0..MOST_COLUMNS as i32).contains(&slot) && self.known >> slot & 1 == 1
    }

    /// The value in a column, or -1.
    fn get(&self, slot: i32) -> i64 {
        if self.has(slot) { self.value[slot as usize] } else { -1 }
    }
}

struct Event {
    metadata: i64,
    offset: i64,
    duration: i64,
}

/// The varint at a position, and the position after it; None if it does not end before `end`.
#[inline(always)]
fn varint(data: &[u8], at: usize, end: usize) -> Option<(u64, usize)> {
    let first = *data.get(at)?;
    if first < 0x80 && at < end {
        return Some((u64::from(first), at + 1));
    }
    let mut value = 0u64;
    for (index, &byte) in data.get(at..end)?.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7F) << (7 * index);
        if byte < 0x80 {
            return Some((value, at + index + 1));
        }
    }
    None
}

/// The start and end of a length-delimited field whose length is at a position.
#[inline(always)]
fn delimited(data: &[u8], at: usize, end: usize) -> Option<(usize, usize)> {
    let (length, begin) = varint(data, at, end)?;
    let finish = begin.checked_add(usize::try_from(length).ok()?)?;
    (finish <= end).then_some((begin, finish))
}

/// The end of a fixed-size field.
fn fixed(at: usize, size: usize, end: usize) -> Option<usize> {
    (at + size <= end).then_some(at + size)
}

fn decode_stat(
    data: &[u8], mut at: usize, end: usize, slots: &[i8], stats: &mut Stats,
) -> Option<()> {
    let mut stat = 0u64;
    let mut found = None;
    while at < end {
        let tag = data[at];
        if !(8..0x80).contains(&tag) {
            return None;
        }
        match tag & 7 {
            VARINT => {
                let (value, after) = varint(data, at + 1, end)?;
                match tag {
                    METADATA => stat = value,
                    UINT_VALUE | INT_VALUE => found = Some((value as i64, NUMBER)),
                    REF_VALUE => found = Some((value as i64, NAMED)),
                    _ => {} // of a later version
                }
                at = after;
            }
            LENGTH => {
                let (_, finish) = delimited(data, at + 1, end)?;
                if tag == TEXT_VALUE || tag == BYTES_VALUE {
                    found = Some((i64::try_from(at + 1).ok()?, SPELLED));
                }
                at = finish;
            }
            FIXED64 => {
                if tag == DOUBLE_VALUE {
                    found = None;
                }
                at = fixed(at + 1, 8, end)?;
            }
            FIXED32 => at = fixed(at + 1, 4, end)?,
            _ => return None,
        }
    }
    let slot = usize::try_from(stat).ok().and_then(|id| slots.get(id)).copied().unwrap_or(-1);
    if let (Ok(slot), Some((value, kind))) = (usize::try_from(slot), found) {
        stats.put(slot, value, kind);
    }
    Some(())
}

enum Decoded {
    Event(Event),
    /// The end of an op with this metadata id.
    End(i64, Event),
    LeftOut,
    Summary,
}

fn kind_of(kinds: &[i32], metadata: u64) -> i32 {
    usize::try_from(metadata).ok().and_then(|id| kinds.get(id)).copied().unwrap_or(KEPT)
}

fn decode_event(
    data: &[u8], mut at: usize, end: usize, slots: &[i8], kinds: &[i32], stats: &mut Stats,
) -> Option<Decoded> {
    stats.known = 0;
    let (mut metadata, mut offset, mut duration, mut timed) = (0u64, 0u64, 0u64, true);
    if at < end && data[at] == METADATA {
        (metadata, at) = varint(data, at + 1, end)?;
    }
    let kind = kind_of(kinds, metadata);
    if kind == LEFT_OUT {
        return Some(Decoded::LeftOut);
    }
    while at < end {
        let tag = data[at];
        if !(8..0x80).contains(&tag) {
            return None;
        }
        match (tag >> 3, tag & 7) {
            (4, LENGTH) => {
                let (begin, finish) = delimited(data, at + 1, end)?;
                decode_stat(data, begin, finish, slots, stats)?;
                at = finish;
            }
            (field, VARINT) => {
                let (value, after) = varint(data, at + 1, end)?;
                match field {
                    1 => metadata = value,
                    2 => (offset, timed) = (value, true),
                    3 => duration = value,
                    5 => timed = false,
                    _ => {}
                }
                at = after;
            }
            (_, LENGTH) => (_, at) = delimited(data, at + 1, end)?,
            (_, FIXED64) => at = fixed(at + 1, 8, end)?,
            (_, FIXED32) => at = fixed(at + 1, 4, end)?,
            _ => return None,
        }
    }
    if !timed {
        return Some(Decoded::Summary);
    }
    let (metadata, offset, duration) = (metadata as i64, offset as i64, duration as i64);
    let event = Event { metadata, offset, duration };
    Some(if kind < END { Decoded::Event(event) } else { Decoded::End(i64::from(kind - END), event) })
}

/// Decode events until there is no more room, or another field follows, and hand them on, each with
/// the id of the op whose end it marks, or -1.
fn decode(
    data: &[u8], slots: &[i8], kinds: &[i32], capacity: usize, outcome: &mut Outcome,
    mut take: impl FnMut(usize, i64, &Event, &Stats) -> Option<()>,
) -> Option<()> {
    let mut stats = Stats::new();
    let mut at = 0;
    while outcome.rows < capacity && at < data.len() && data[at] == EVENT {
        let (begin, finish) = delimited(data, at + 1, data.len())?;
        match decode_event(data, begin, finish, slots, kinds, &mut stats)? {
            Decoded::Event(event) => {
                take(outcome.rows, -1, &event, &stats)?;
                outcome.rows += 1;
            }
            Decoded::End(op, event) => {
                take(outcome.rows, op, &event, &stats)?;
                outcome.rows += 1;
            }
            Decoded::LeftOut => outcome.left_out += 1,
            Decoded::Summary => outcome.summaries += 1,
        }
        at = finish;
        outcome.consumed = at;
    }
    outcome.spelled = stats.spelled;
    Some(())
}

/// The data, slots and kinds of an input; None if it has too many columns.
unsafe fn parts<'a>(input: &Input) -> Option<(&'a [u8], &'a [i8], &'a [i32])> {
    let slots = from_raw_parts(input.slots, input.slot_count);
    let within = |slot: &i8| usize::try_from(*slot).map_or(true, |slot| slot < input.columns);
    (input.columns <= MOST_COLUMNS && slots.iter().all(within)).then(|| {
        let kinds = from_raw_parts(input.kinds, input.kind_count);
        (from_raw_parts(input.data, input.size), slots, kinds)
    })
}

/// Decode events into columns. Return 0, or 1 if the bytes are not as expected.
///
/// # Safety
/// Pointers must be valid for the sizes given with them.
#[no_mangle]
pub unsafe extern "C" fn decode_events(
    input: *const Input, output: *const ColumnOutput, outcome: *mut Outcome,
) -> u32 {
    let (input, output, outcome) = (&*input, &*output, &mut *outcome);
    let Some((data, slots, kinds)) = parts(input) else { return 1 };
    let capacity = input.capacity;
    let cells = input.columns * capacity;
    let metadata = from_raw_parts_mut(output.metadata, capacity);
    let offset = from_raw_parts_mut(output.offset, capacity);
    let duration = from_raw_parts_mut(output.duration, capacity);
    let value = from_raw_parts_mut(output.value, cells);
    let known = from_raw_parts_mut(output.known, cells);
    let kind = from_raw_parts_mut(output.kind, cells);
    let done = decode(data, slots, kinds, capacity, outcome, |row, _, event, stats| {
        metadata[row] = event.metadata;
        offset[row] = event.offset;
        duration[row] = event.duration;
        let mut left = stats.known;
        while left != 0 {
            let slot = left.trailing_zeros() as usize;
            let at = slot * capacity + row;
            value[at] = stats.value[slot];
            known[at] = 1;
            kind[at] = stats.kind[slot];
            left &= left - 1;
        }
        Some(())
    });
    u32::from(done.is_none())
}

/// What makes an event work of a device, and what its op is known by: columns, or -1.
#[repr(C)]
pub struct Arrangement {
    /// Time zero of the line, added to all starts.
    base: i64,
    /// Times beyond it are damage.
    latest: i64,
    /// 1: all events are work. 0: those with an op and a device; the others are told apart.
    all_work: i32,
    op: i32,
    module: i32,
    program: i32,
    run: i32,
    graph: i32,
    device: i32,
    step: i32,
    /// What joins an op with the mark of its end, which may be on another thread.
    producer: i32,
    consumer: i32,
    /// Events that have it are few, and left to Python with their batch.
    memory: i32,
}

/// Each column has room for `capacity` rows; the stats of kinds have `columns` values a row.
#[repr(C)]
pub struct ArrangedOutput {
    work_start: *mut i64,
    work_duration: *mut i64,
    work_run: *mut i64,
    work_has_run: *mut u8,
    work_kind: *mut u32,
    work_device: *mut u32,
    /// Work whose end is not marked at once, and marks of ends that came later.
    open_row: *mut i64,
    open_id: *mut i64,
    end_time: *mut i64,
    end_id: *mut i64,
    kind_metadata: *mut i64,
    kind_value: *mut i64,
    kind_known: *mut u8,
    kind_type: *mut u8,
    device: *mut i64,
    other_start: *mut i64,
    other_duration: *mut i64,
    other_name: *mut u32,
    name_metadata: *mut i64,
    marker_metadata: *mut i64,
    marker_start: *mut i64,
    marker_duration: *mut i64,
    marker_step: *mut i64,
}

#[repr(C)]
pub struct Arranged {
    work: usize,
    opens: usize,
    ends: usize,
    kinds: usize,
    devices: usize,
    others: usize,
    names: usize,
    markers: usize,
}

/// Few values repeat: multiplying mixes them well enough, and costs little.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_i64(&mut self, value: i64) {
        self.write_u64(value as u64);
    }
}

/// Numbers values by their first appearance.
struct Numbers<K> {
    of: HashMap<K, u32, BuildHasherDefault<Mixer>>,
    last: Option<(K, u32)>,
}

impl<K: Copy + Eq + Hash> Numbers<K> {
    fn new() -> Self {
        Self { of: HashMap::default(), last: None }
    }

    fn len(&self) -> usize {
        self.of.len()
    }

    /// The number of a value; `fresh` is called if it is new.
    fn number(&mut self, key: K, fresh: impl FnOnce(usize)) -> u32 {
        if let Some((last, number)) = self.last {
            if last == key {
                return number;
            }
        }
        let next = self.of.len();
        let number = *self.of.entry(key).or_insert_with(|| {
            fresh(next);
            next as u32
        });
        self.last = Some((key, number));
        number
    }
}

/// Decode events, and tell apart the work of devices, markers of steps, and what lasted on the
/// host. Return 0, or 1 if the bytes or times are not as expected.
///
/// # Safety
/// Pointers must be valid for the sizes given with them.
#[no_mangle]
pub unsafe extern "C" fn arrange_events(
    input: *const Input, how: *const Arrangement, output: *const ArrangedOutput,
    outcome: *mut Outcome, arranged: *mut Arranged,
) -> u32 {
    let (input, how, output) = (&*input, &*how, &*output);
    let (outcome, arranged) = (&mut *outcome, &mut *arranged);
    let Some((data, slots, event_kinds)) = parts(input) else { return 1 };
    let (capacity, columns) = (input.capacity, input.columns);
    let longs = |column: *mut i64| from_raw_parts_mut(column, capacity);
    let codes = |column: *mut u32| from_raw_parts_mut(column, capacity);
    let (work_start, work_duration) = (longs(output.work_start), longs(output.work_duration));
    let (work_run, kind_metadata) = (longs(output.work_run), longs(output.kind_metadata));
    let (open_row, open_id) = (longs(output.open_row), longs(output.open_id));
    let (end_time, end_id) = (longs(output.end_time), longs(output.end_id));
    let work_has_run = from_raw_parts_mut(output.work_has_run, capacity);
    let (work_kind, work_device) = (codes(output.work_kind), codes(output.work_device));
    let kind_value = from_raw_parts_mut(output.kind_value, capacity * columns);
    let kind_known = from_raw_parts_mut(output.kind_known, capacity * columns);
    let kind_type = from_raw_parts_mut(output.kind_type, capacity * columns);
    let device = longs(output.device);
    let (other_start, other_duration) = (longs(output.other_start), longs(output.other_duration));
    let (other_name, name_metadata) = (codes(output.other_name), longs(output.name_metadata));
    let (marker_metadata, marker_start) = (longs(output.marker_metadata), longs(output.marker_start));
    let (marker_duration, marker_step) = (longs(output.marker_duration), longs(output.marker_step));
    let (mut kinds, mut devices, mut names) = (Numbers::new(), Numbers::new(), Numbers::new());
    let (mut work, mut others, mut markers) = (0, 0, 0);
    let (mut opens, mut ends) = (0, 0);
    // The op of the last event, its end by its own account, and what joins it with its mark.
    let mut last: Option<(i64, i64, i64)> = None;
    // Since when the thread does one thing after the other, and until when.
    let mut chain = (i64::MIN, i64::MIN);
    let done = decode(data, slots, event_kinds, capacity, outcome, |_, ended, event, stats| {
        let (low, high) = (event.offset.min(event.duration), event.offset.max(event.duration));
        if low < -how.latest || high > how.latest || event.duration < 0 || stats.spelled > 0 {
            return None; // damage, which Python words; or texts, whose ids it gives
        }
        if stats.has(how.memory) {
            return None;
        }
        let start = event.offset + how.base;
        if ended >= 0 {
            if matches!(last, Some((op, end, _)) if op == ended && start <= end + AT_ONCE_PS) {
                last = None;
            } else if stats.has(how.consumer) {
                // What waits for an op runs at its end, before that is marked.
                let over = if start <= chain.1.saturating_add(AT_ONCE_PS) { chain.0 } else { start };
                (end_time[ends], end_id[ends]) = (over, stats.get(how.consumer));
                ends += 1;
            }
            return Some(());
        }
        if start > chain.1.saturating_add(AT_ONCE_PS) {
            chain.0 = start;
        }
        chain = (chain.0.min(start), chain.1.max(start + event.duration));
        if how.all_work == 1 || stats.has(how.op) && stats.has(how.device) {
            work_start[work] = start;
            work_duration[work] = event.duration;
            work_run[work] = if stats.has(how.run) { stats.get(how.run) } else { 0 };
            work_has_run[work] = u8::from(stats.has(how.run));
            let key = (
                (event.metadata, stats.get(how.op), stats.get(how.module)),
                (stats.get(how.program), i64::from(stats.has(how.graph))),
            );
            work_kind[work] = kinds.number(key, |number| {
                kind_metadata[number] = event.metadata;
                for slot in 0..columns {
                    let at = number * columns + slot;
                    let known = stats.known >> slot & 1 == 1;
                    kind_known[at] = u8::from(known);
                    kind_value[at] = if known { stats.value[slot] } else { 0 };
                    kind_type[at] = if known { stats.kind[slot] } else { NUMBER };
                }
            });
            work_device[work] = devices.number(stats.get(how.device), |number| {
                device[number] = stats.get(how.device);
            });
            if let Some((_, _, id)) = last.take() {
                (open_row[opens], open_id[opens]) = (work as i64 - 1, id);
                opens += 1;
            }
            if stats.has(how.producer) {
                last = Some((event.metadata, start + event.duration, stats.get(how.producer)));
            }
            work += 1;
            return Some(());
        }
        if event.duration > 0 {
            other_start[others] = start;
            other_duration[others] = event.duration;
            other_name[others] = names.number(event.metadata, |number| {
                name_metadata[number] = event.metadata;
            });
            others += 1;
        }
        if stats.has(how.step) {
            marker_metadata[markers] = event.metadata;
            marker_start[markers] = start;
            marker_duration[markers] = event.duration;
            marker_step[markers] = stats.get(how.step);
            markers += 1;
        }
        Some(())
    });
    if let Some((_, _, id)) = last {
        (open_row[opens], open_id[opens]) = (work as i64 - 1, id);
        opens += 1;
    }
    arranged.work = work;
    arranged.opens = opens;
    arranged.ends = ends;
    arranged.kinds = kinds.len();
    arranged.devices = devices.len();
    arranged.others = others;
    arranged.names = names.len();
    arranged.markers = markers;
    u32::from(done.is_none())
}

/// A column of a table to be filled: with `source`, with its values by `code`, or with its first.
#[repr(C)]
pub struct Filled {
    target: *mut u8,
    source: *const u8,
    /// Null: the rows are in `source`, or there is one value for all.
    code: *const u32,
    /// How many values `source` has.
    values: usize,
    /// Bytes of a value: 1, 2, 4 or 8.
    width: usize,
}

unsafe fn fill_as<T: Copy>(column: &Filled, rows: usize) {
    let target = from_raw_parts_mut(column.target.cast::<T>(), rows);
    let source = from_raw_parts(column.source.cast::<T>(), column.values);
    if !column.code.is_null() {
        let last = column.values - 1;
        for (put, &code) in target.iter_mut().zip(from_raw_parts(column.code, rows)) {
            *put = source[last.min(code as usize)];
        }
    } else if column.values == rows {
        target.copy_from_slice(source);
    } else {
        target.fill(source[0]);
    }
}

/// Fill rows of columns. Return 0, or 1 if a column is of another width or has no values.
///
/// # Safety
/// Pointers must be valid for the sizes given with them, and aligned.
#[no_mangle]
pub unsafe extern "C" fn fill_columns(columns: *const Filled, count: usize, rows: usize) -> u32 {
    for column in from_raw_parts(columns, count) {
        if column.values == 0 {
            return 1;
        }
        match column.width {
            1 => fill_as::<u8>(column, rows),
            2 => fill_as::<u16>(column, rows),
            4 => fill_as::<u32>(column, rows),
            8 => fill_as::<u64>(column, rows),
            _ => return 1,
        }
    }
    0
}

/// The bytes of whole events from the start of `data` on, at least one, up to about `room`; their
/// number goes to `count`. 0: there is no whole event.
///
/// # Safety
/// `data` must be valid for `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn measure_events(
    data: *const u8, size: usize, room: usize, count: *mut usize,
) -> usize {
    let data = from_raw_parts(data, size);
    let (mut at, mut events) = (0, 0);
    while at < data.len() && at < room && data[at] == EVENT {
        let Some((_, finish)) = delimited(data, at + 1, data.len()) else { break };
        at = finish;
        events += 1;
    }
    *count = events;
    at
}

#[no_mangle]
pub extern "C" fn layout() -> u32 {
    LAYOUT
}
