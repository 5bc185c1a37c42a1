//! The events of one line of an XPlane, decoded into columns.
//!
//! Python calls `decode_events` through ctypes, without holding its lock, so lines are decoded in
//! parallel. The input comes from a file that anybody may have written: every read is checked
//! against the end of its message, and what this code does not expect is left to the Python
//! decoder, which gives the same columns, more slowly, or the error.
//!
//! XEvent {1 metadata_id, 2 offset_ps | 5 num_occurrences, 3 duration_ps, 4 stats}
//! XStat  {1 metadata_id, 2 double, 3 uint64, 4 int64, 5 str, 6 bytes, 7 ref}

use std::slice::{from_raw_parts, from_raw_parts_mut};

/// Changes with the layout of `Request` and `Outcome`; Python refuses another one.
const LAYOUT: u32 = 2;

const EVENT: u8 = 0x22;
const METADATA: u8 = 0x08;

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const LENGTH: u8 = 2;
const FIXED32: u8 = 5;

const NUMBER: u8 = 0;
const NAMED: u8 = 1;
/// The value is the position of the text, which Python numbers.
const SPELLED: u8 = 2;

#[repr(C)]
pub struct Request {
    data: *const u8,
    size: usize,
    /// The column of each stat by its metadata id; -1: not wanted.
    slots: *const i8,
    slot_count: usize,
    /// 1 for each metadata id whose events are left out.
    left_out: *const u8,
    left_out_count: usize,
    capacity: usize,
    columns: usize,
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

struct Columns<'a> {
    capacity: usize,
    metadata: &'a mut [i64],
    offset: &'a mut [i64],
    duration: &'a mut [i64],
    value: &'a mut [i64],
    known: &'a mut [u8],
    kind: &'a mut [u8],
    spelled: usize,
}

impl Columns<'_> {
    fn put(&mut self, slot: usize, row: usize, value: i64, kind: u8) {
        let at = slot * self.capacity + row;
        self.value[at] = value;
        self.known[at] = 1;
        self.kind[at] = kind;
        self.spelled += usize::from(kind == SPELLED);
    }

    fn clear(&mut self, row: usize) {
        for at in (row..self.value.len()).step_by(self.capacity) {
            self.value[at] = 0;
            self.known[at] = 0;
            self.kind[at] = NUMBER;
        }
    }
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
    data: &[u8], mut at: usize, end: usize, row: usize, slots: &[i8], columns: &mut Columns,
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
                if tag == METADATA {
                    stat = value;
                } else {
                    found = Some((value as i64, if tag >> 3 == 7 { NAMED } else { NUMBER }));
                }
                at = after;
            }
            LENGTH => {
                let (_, finish) = delimited(data, at + 1, end)?;
                found = Some((i64::try_from(at + 1).ok()?, SPELLED));
                at = finish;
            }
            FIXED64 => (found, at) = (None, fixed(at + 1, 8, end)?),
            FIXED32 => (found, at) = (None, fixed(at + 1, 4, end)?),
            _ => return None,
        }
    }
    let slot = usize::try_from(stat).ok().and_then(|id| slots.get(id)).copied().unwrap_or(-1);
    if let (Ok(slot), Some((value, kind))) = (usize::try_from(slot), found) {
        columns.put(slot, row, value, kind);
    }
    Some(())
}

enum Decoded {
    Event,
    LeftOut,
    Summary,
}

fn decode_event(
    data: &[u8], mut at: usize, end: usize, row: usize, slots: &[i8], left_out: &[u8],
    columns: &mut Columns,
) -> Option<Decoded> {
    let (mut metadata, mut offset, mut duration, mut timed) = (0u64, 0u64, 0u64, true);
    if at < end && data[at] == METADATA {
        (metadata, at) = varint(data, at + 1, end)?;
    }
    if usize::try_from(metadata).ok().and_then(|id| left_out.get(id)) == Some(&1) {
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
                decode_stat(data, begin, finish, row, slots, columns)?;
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
        columns.clear(row);
        return Some(Decoded::Summary);
    }
    columns.metadata[row] = metadata as i64;
    columns.offset[row] = offset as i64;
    columns.duration[row] = duration as i64;
    Some(Decoded::Event)
}

fn decode(
    data: &[u8], slots: &[i8], left_out: &[u8], columns: &mut Columns, outcome: &mut Outcome,
) -> Option<()> {
    let mut at = 0;
    while outcome.rows < columns.capacity && at < data.len() && data[at] == EVENT {
        let (begin, finish) = delimited(data, at + 1, data.len())?;
        match decode_event(data, begin, finish, outcome.rows, slots, left_out, columns)? {
            Decoded::Event => outcome.rows += 1,
            Decoded::LeftOut => outcome.left_out += 1,
            Decoded::Summary => outcome.summaries += 1,
        }
        at = finish;
        outcome.consumed = at;
    }
    Some(())
}

/// Decode events until the rows are full, or another field follows. Return 0, or 1 if the bytes
/// are not as expected.
///
/// # Safety
/// Pointers must be valid for the sizes given with them.
#[no_mangle]
pub unsafe extern "C" fn decode_events(request: *const Request, outcome: *mut Outcome) -> u32 {
    let (request, outcome) = (&*request, &mut *outcome);
    let cells = request.columns * request.capacity;
    let mut columns = Columns {
        capacity: request.capacity,
        metadata: from_raw_parts_mut(request.metadata, request.capacity),
        offset: from_raw_parts_mut(request.offset, request.capacity),
        duration: from_raw_parts_mut(request.duration, request.capacity),
        value: from_raw_parts_mut(request.value, cells),
        known: from_raw_parts_mut(request.known, cells),
        kind: from_raw_parts_mut(request.kind, cells),
        spelled: 0,
    };
    let data = from_raw_parts(request.data, request.size);
    let slots = from_raw_parts(request.slots, request.slot_count);
    let left_out = from_raw_parts(request.left_out, request.left_out_count);
    let done = decode(data, slots, left_out, &mut columns, outcome);
    outcome.spelled = columns.spelled;
    u32::from(done.is_none())
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
