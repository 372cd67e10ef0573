//! Walks the control of a section step by step, so that a run can stop after any fence and go on from there.
//!
//! A cursor holds only positions: copying one is cheap, and replaying a copy without launching anything tells the
//! state of the loop (renamed versions, rounds) at any step the device has reached.

use kernelwright_codegen::loops::{Control, FenceId, SweepId, VectorId};

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Launch a sweep.
    Sweep(SweepId),
    /// Launch a fence.
    Fence(FenceId),
    /// Rename the versions of a vector.
    Rotate(VectorId),
    /// A round of an unbounded loop begins.
    Round,
}

/// A position in nested control.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'p> {
    frames: Vec<Frame<'p>>,
}

#[derive(Debug, Clone)]
struct Frame<'p> {
    body: &'p [Control],
    at: usize,
    repeat: Repeat,
}

#[derive(Debug, Clone, Copy)]
enum Repeat {
    Once,
    /// `left` rounds including this one; `round` counts from 1.
    Times {
        left: u32,
        round: u32,
    },
    Forever {
        round: u32,
    },
}

impl<'p> Cursor<'p> {
    /// A cursor before the first step of the sections, which follow one another.
    pub(super) fn over(sections: &[&'p [Control]]) -> Self {
        let frames = sections.iter().rev().map(|body| Frame { body, at: 0, repeat: Repeat::Once }).collect();
        Cursor { frames }
    }

    /// The next step, or none at the end.
    pub(super) fn next(&mut self) -> Option<Step> {
        loop {
            let frame = self.frames.last_mut()?;
            let Some(control) = frame.body.get(frame.at) else {
                if self.end_of_body() {
                    return Some(Step::Round);
                }
                continue;
            };
            frame.at += 1;
            match control {
                Control::Sweep(sweep) => return Some(Step::Sweep(*sweep)),
                Control::Fence(fence) => return Some(Step::Fence(*fence)),
                Control::Rotate(vector) => return Some(Step::Rotate(*vector)),
                Control::Loop { times: None, body } => {
                    self.frames.push(Frame { body, at: 0, repeat: Repeat::Forever { round: 1 } });
                    return Some(Step::Round);
                }
                Control::Loop { times: Some(0), .. } => {}
                Control::Loop { times: Some(times), body } => {
                    self.frames.push(Frame { body, at: 0, repeat: Repeat::Times { left: *times, round: 1 } });
                }
                Control::Every { n, body, otherwise } => {
                    let body = if self.round().is_multiple_of(*n) { body } else { otherwise };
                    self.frames.push(Frame { body, at: 0, repeat: Repeat::Once });
                }
            }
        }
    }

    /// Leaves the outermost unbounded loop; what follows it comes next. Outside of such a loop, ends.
    pub(super) fn leave_loop(&mut self) {
        let outermost = self.frames.iter().position(|frame| matches!(frame.repeat, Repeat::Forever { .. }));
        self.frames.truncate(outermost.unwrap_or(0));
    }

    /// Starts the next round or leaves the body; true when a round of an unbounded loop begins.
    fn end_of_body(&mut self) -> bool {
        let Some(frame) = self.frames.last_mut() else { return false };
        match &mut frame.repeat {
            Repeat::Forever { round } => {
                *round = round.saturating_add(1);
                frame.at = 0;
                return true;
            }
            Repeat::Times { left, round } if *left > 1 => {
                *left -= 1;
                *round += 1;
                frame.at = 0;
            }
            Repeat::Times { .. } | Repeat::Once => {
                self.frames.pop();
            }
        }
        false
    }

    /// Round of the innermost loop, 1 outside of all loops.
    fn round(&self) -> u32 {
        let rounds = self.frames.iter().rev().find_map(|frame| match frame.repeat {
            Repeat::Once => None,
            Repeat::Times { round, .. } | Repeat::Forever { round } => Some(round),
        });
        rounds.unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(n: usize) -> Control {
        Control::Sweep(SweepId(n))
    }

    /// Sweeps of the first `steps` steps, with -1 for a round.
    fn walk(control: &[Control], steps: usize) -> Vec<i64> {
        let mut cursor = Cursor::over(&[control]);
        let mut seen = Vec::new();
        while let Some(step) = cursor.next() {
            match step {
                Step::Sweep(id) => seen.push(id.0 as i64),
                Step::Round => seen.push(-1),
                _ => {}
            }
            if seen.len() == steps {
                break;
            }
        }
        seen
    }

    #[test]
    fn every_counts_the_rounds_of_the_innermost_loop() {
        let every = Control::Every { n: 2, body: vec![sweep(9)], otherwise: vec![sweep(8)] };
        let inner = Control::Loop { times: Some(3), body: vec![sweep(1), every] };
        let control = [Control::Loop { times: None, body: vec![sweep(0), inner] }];
        assert_eq!(walk(&control, 16), [-1, 0, 1, 8, 1, 9, 1, 8, -1, 0, 1, 8, 1, 9, 1, 8]);
    }

    #[test]
    fn sections_follow_one_another_and_empty_ones_vanish() {
        let (a, b, c) = ([sweep(0)], [], [Control::Loop { times: Some(0), body: vec![sweep(7)] }, sweep(1)]);
        let mut cursor = Cursor::over(&[&a, &b, &c]);
        assert_eq!(cursor.next(), Some(Step::Sweep(SweepId(0))));
        assert_eq!(cursor.next(), Some(Step::Sweep(SweepId(1))));
        assert_eq!(cursor.next(), None);
    }

    #[test]
    fn leaving_a_loop_goes_on_behind_it() {
        let control = [Control::Loop { times: None, body: vec![sweep(0)] }, sweep(5)];
        let mut cursor = Cursor::over(&[&control]);
        assert_eq!(cursor.next(), Some(Step::Round));
        cursor.leave_loop();
        assert_eq!(cursor.next(), Some(Step::Sweep(SweepId(5))));
    }
}
