//! Where a reading at a fixed offset lands along one axis, for every position it can be made from.
//!
//! Away from the ends it is `x + offset`. Near them the boundary rule moves it; [`images`] cuts the range of x into
//! pieces on each of which the landing place is one formula. Sizes are known, so this is done here and not in the
//! kernel, however short the axis.

use crate::math::{Centring, Outside, Rule};
use crate::resolve;

/// A range of positions x (inclusive) that land by one formula.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    /// First and last x.
    pub(super) range: (i64, i64),
    /// Landing place; none where the value is prescribed.
    pub(super) place: Option<Place>,
    /// Factor of the value there, ±1 (0 without a place).
    pub(super) sign: i64,
    /// Prescribed values met: side and factor.
    pub(super) given: Vec<(usize, f64)>,
}

/// A landing place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// x + n.
    Shifted(i64),
    /// n - x, for at least two x.
    Mirrored(i64),
}

/// An axis as far as the rule is concerned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'a> {
    /// Rules, low and high.
    pub(super) rules: &'a [Rule; 2],
    /// Cells or nodes.
    pub(super) centring: Centring,
    /// Number of points.
    pub(super) n: u64,
}

/// Pieces of an unknown's reading, in ascending order.
pub(super) fn images(axis: Side, offset: i64, range: (i64, i64)) -> Vec<Piece> {
    let inside = (-offset, axis.n as i64 - 1 - offset);
    pieces(range, inside, offset, |x| {
        let reading = resolve::unknown(axis.rules, axis.centring, x + offset, axis.n);
        Piece {
            range: (x, x),
            place: reading.index.map(|m| Place::Shifted(m as i64 - x)),
            sign: reading.sign as i64,
            given: reading.given,
        }
    })
}

/// Pieces of a data array's reading: places are element numbers; zero where the sign is.
pub(super) fn elements(
    outside: Outside,
    periodic: bool,
    faces: bool,
    n: u64,
    offset: i64,
    range: (i64, i64),
) -> Vec<Piece> {
    let first = if faces { -1 } else { 0 };
    // On a periodic axis element 0 of a face array is never read: face -1 is face n-1.
    let low = if periodic { 0 } else { first };
    pieces(range, (low - offset, n as i64 - 1 - offset), offset - first, |x| {
        let (place, sign) = match resolve::data(outside, periodic, faces, x + offset, n) {
            resolve::Element::At(m) => (Some(Place::Shifted(m as i64 - x)), 1),
            resolve::Element::Zero => (None, 0),
            resolve::Element::Missing => (Some(Place::Shifted(-x)), 1),
        };
        Piece { range: (x, x), place, sign, given: Vec::new() }
    })
}

/// Cuts `range` at `inside`, where the place is `x + shift`; elsewhere `at_one` tells.
fn pieces(range: (i64, i64), inside: (i64, i64), shift: i64, at_one: impl Fn(i64) -> Piece) -> Vec<Piece> {
    let (first, last) = (inside.0.max(range.0), inside.1.min(range.1));
    if first > last {
        return joined((range.0..=range.1).map(at_one).collect());
    }
    let mut pieces: Vec<Piece> = (range.0..first).map(&at_one).collect();
    pieces.push(Piece { range: (first, last), place: Some(Place::Shifted(shift)), sign: 1, given: Vec::new() });
    pieces.extend((last + 1..=range.1).map(&at_one));
    joined(pieces)
}

/// Joins neighbouring pieces that one formula describes.
fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::new();
    for piece in pieces {
        if let Some(last) = out.last_mut()
            && let Some(place) = common(last, &piece)
        {
            last.range.1 = piece.range.1;
            last.place = place;
        } else {
            out.push(piece);
        }
    }
    out
}

/// The formula of two neighbours, if there is one.
fn common(a: &Piece, b: &Piece) -> Option<Option<Place>> {
    if a.sign != b.sign || a.given != b.given {
        return None;
    }
    let (Some(p), Some(q)) = (a.place, b.place) else {
        return (a.place == b.place).then_some(None);
    };
    if p == q {
        return Some(Some(p));
    }
    let sum = |place: Place, x: i64| match place {
        Place::Shifted(d) => 2 * x + d,
        Place::Mirrored(s) => s,
    };
    let one = |p: &Piece| p.range.0 == p.range.1;
    let mirrored = (matches!(p, Place::Mirrored(_)) || one(a)) && (matches!(q, Place::Mirrored(_)) || one(b));
    let total = sum(p, a.range.0);
    (mirrored && total == sum(q, b.range.0)).then_some(Some(Place::Mirrored(total)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every piece says what the rule says, and the pieces cover the range.
    fn check(rules: [Rule; 2], centring: Centring, n: u64, offset: i64) {
        let axis = Side { rules: &rules, centring, n };
        let pieces = images(axis, offset, (0, n as i64 - 1));
        let mut next = 0;
        for piece in &pieces {
            assert_eq!(piece.range.0, next, "{pieces:?}");
            for x in piece.range.0..=piece.range.1 {
                let want = resolve::unknown(&rules, centring, x + offset, n);
                let index = piece.place.map(|p| match p {
                    Place::Shifted(d) => x + d,
                    Place::Mirrored(s) => s - x,
                });
                assert_eq!(index, want.index.map(|m| m as i64), "x {x} offset {offset} of {n}: {piece:?}");
                assert_eq!((piece.sign as f64, &piece.given), (want.sign, &want.given));
            }
            next = piece.range.1 + 1;
        }
        assert_eq!(next, n as i64);
    }

    #[test]
    fn pieces_agree_with_the_rule() {
        let ends = [Rule::NoFlux, Rule::Dirichlet(0), Rule::Dirichlet(1)];
        for n in 1..10 {
            for offset in -9..=9 {
                check([Rule::Periodic, Rule::Periodic], Centring::Cells, n, offset);
                for low in &ends {
                    for high in &ends {
                        check([low.clone(), high.clone()], Centring::Cells, n, offset);
                        check([low.clone(), high.clone()], Centring::Nodes, n, offset);
                    }
                }
            }
        }
    }

    #[test]
    fn a_mirror_is_one_piece() {
        let rules = [Rule::Dirichlet(0), Rule::Dirichlet(0)];
        let axis = Side { rules: &rules, centring: Centring::Cells, n: 100 };
        let pieces = images(axis, -3, (0, 99));
        assert_eq!(pieces.len(), 2);
        assert_eq!(pieces[0].place, Some(Place::Mirrored(2)));
    }
}
